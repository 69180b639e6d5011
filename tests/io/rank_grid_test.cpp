// Ranks of grids: places and numbers, neighbours, groups, rows.
#include "io/base/rank_grid.hpp"

#include <map>
#include <set>

#include <doctest/doctest.h>

using namespace troupe;

namespace {

/// Every grid of one to four ranks on each axis.
template <class F>
void with_small_grids(F f) {
  for (int data = 1; data <= 4; ++data)
    for (int tensor = 1; tensor <= 4; ++tensor)
      for (int pipeline = 1; pipeline <= 4; ++pipeline) {
        const rank_grid grid(data, tensor, pipeline);
        CAPTURE(data);
        CAPTURE(tensor);
        CAPTURE(pipeline);
        f(grid);
      }
}

template <class F>
void with_ranks(const rank_grid& grid, F f) {
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    CAPTURE(rank);
    f(grid_rank{grid, rank});
  }
}

}  // namespace

TEST_CASE("GRD-1: place_of and rank_of are inverse to each other") {
  with_small_grids([](const rank_grid& grid) {
    int rank = 0;
    for (int pipeline = 0; pipeline < grid.pipeline; ++pipeline)
      for (int data = 0; data < grid.data; ++data)
        for (int tensor = 0; tensor < grid.tensor; ++tensor, ++rank) {
          const grid_place place{data, tensor, pipeline};
          CHECK(grid.rank_of(place) == rank);
          CHECK(grid.place_of(rank) == place);
        }
    CHECK(grid.ranks() == rank);
  });
}

TEST_CASE("GRD-2: the groups of a kind share no rank, and their members say the same of them") {
  with_small_grids([](const rank_grid& grid) {
    for (const auto kind : {group_kind::data, group_kind::pipeline, group_kind::tied}) {
      std::map<std::string, std::vector<int>> groups;
      std::set<int> seen;
      with_ranks(grid, [&](const grid_rank& at) {
        if (kind == group_kind::tied && !at.reads_batches(false)) return;
        const auto g = at.group(kind);
        REQUIRE(g.rank < g.size());
        CHECK(g.members[static_cast<size_t>(g.rank)] == at.rank);
        const auto [it, is_new] = groups.emplace(g.name(), g.members);
        CHECK(it->second == g.members);
        if (is_new)
          for (const int member : g.members) CHECK(seen.insert(member).second);
      });
      if (kind != group_kind::tied) CHECK(std::ssize(seen) == grid.ranks());
    }
  });
}

TEST_CASE("a rank's groups are those of several ranks, by the names of the data plane") {
  const auto names = [](const grid_rank& at, bool tied) {
    std::string out;
    for (const auto& g : at.groups(tied)) {
      out += g.name() + ":";
      for (const int member : g.members) out += " " + std::to_string(member);
      out += "; ";
    }
    return out;
  };
  const rank_grid grid(2, 1, 3);
  CHECK(names({grid, 0}, true) == "data/0: 0 1; pipe/0: 0 2 4; tied/0: 0 4; ");
  CHECK(names({grid, 3}, true) == "data/1: 2 3; pipe/1: 1 3 5; ");
  CHECK(names({grid, 5}, true) == "data/2: 4 5; pipe/1: 1 3 5; tied/1: 1 5; ");
  CHECK(names({grid, 5}, false) == "data/2: 4 5; pipe/1: 1 3 5; ");
  CHECK(names({{3, 1, 1}, 1}, true) == "data/0: 0 1 2; ");
  CHECK(names({}, true) == "");
}

TEST_CASE(
    "neighbours are one stage apart on the same pipeline, and there is none beyond its ends") {
  with_small_grids([](const rank_grid& grid) {
    with_ranks(grid, [&](const grid_rank& at) {
      CHECK(at.previous().has_value() == !at.first());
      CHECK(at.next().has_value() == !at.last());
      CHECK(at.reads_batches(false) == (!at.previous() || !at.next()));
      CHECK(at.reads_batches(true));
      if (!at.next()) return;
      const grid_rank next{grid, *at.next()};
      CHECK(next.previous() == at.rank);
      CHECK(next.place().pipeline == at.place().pipeline + 1);
      CHECK(next.place().data == at.place().data);
      CHECK(next.place().tensor == at.place().tensor);
    });
  });
}

TEST_CASE("GRD-3: the data ranks' rows are a batch, in order") {
  with_small_grids([](const rank_grid& grid) {
    const int64_t batch = grid.data * 3;
    CHECK(grid.rows_each(batch) == 3);
    int64_t next = 0;
    for (int data = 0; data < grid.data; ++data) {
      CHECK(grid.rows_of(data, batch) == row_range{next, 3});
      next += 3;
    }
    CHECK(next == batch);
  });
}

TEST_CASE("a grid without ranks, with too many, or without the rank in question is refused") {
  CHECK(rank_grid().possible(1));
  CHECK(rank_grid(2, 3, 4).possible(24));
  CHECK_FALSE(rank_grid(2, 3, 4).possible(23));
  for (const int none : {0, -1, INT32_MIN}) {
    CHECK_FALSE(rank_grid(none, 1, 1).possible(9));
    CHECK_FALSE(rank_grid(1, none, 1).possible(9));
    CHECK_FALSE(rank_grid(1, 1, none).possible(9));
    CHECK_FALSE(rank_grid(none, none, 1).possible(9));
  }
  CHECK_FALSE(rank_grid(INT32_MAX, INT32_MAX, INT32_MAX).possible(INT64_MAX));  // no overflow
  const rank_grid grid(2, 1, 3);
  CHECK(grid.holds(0));
  CHECK(grid.holds(5));
  CHECK_FALSE(grid.holds(6));
  CHECK_FALSE(grid.holds(-1));
  CHECK_FALSE(grid.holds(UINT32_MAX));
}
