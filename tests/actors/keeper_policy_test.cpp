// Who keeps whose copies: tables of layouts.
#include "actors/train/keeper_policy.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace troupe;
using namespace troupe::train;

namespace {

/// Nodes of so many ranks each, `nodes_a_host` of them on a host.
std::vector<rank_home> homes_of(const std::vector<int>& ranks, int nodes_a_host = 1) {
  std::vector<rank_home> out;
  for (size_t n = 0; n < ranks.size(); ++n)
    for (int r = 0; r < ranks[n]; ++r)
      out.push_back({static_cast<int64_t>(n),
                     "host" + std::to_string(n / static_cast<size_t>(nodes_a_host))});
  return out;
}

}  // namespace

TEST_CASE("KPR-1: a keeper is on another node, whatever the layout") {
  struct row {
    rank_grid grid;
    std::vector<int> nodes;
  };
  const row rows[] = {{{2, 1, 1}, {1, 1}},      {{1, 1, 2}, {1, 1}}, {{2, 1, 2}, {1, 1, 1, 1}},
                      {{2, 1, 2}, {2, 2}},      {{4, 1, 2}, {4, 4}}, {{4, 1, 4}, {8, 8}},
                      {{4, 1, 1}, {3, 1}},      {{2, 1, 3}, {1, 5}}, {{3, 1, 2}, {2, 3, 1}},
                      {{8, 1, 4}, {8, 8, 8, 8}}};
  for (const auto& r : rows) {
    const auto homes = homes_of(r.nodes);
    const auto keepers = keepers_of(r.grid, homes);
    REQUIRE(keepers.size() == homes.size());
    for (size_t i = 0; i < homes.size(); ++i)
      CHECK(homes[i].node != homes[static_cast<size_t>(keepers[i])].node);
  }
  CHECK(keepers_of({4, 1, 1}, homes_of({4})).empty());
  CHECK(keepers_of({1, 1, 1}, {}).empty());
}

TEST_CASE("KPR-1: of a job, nodes that run no ranks keep nothing") {
  for (const int64_t spares : {0, 1, 2}) {
    CAPTURE(spares);
    config::job job;
    job.parallel.data = 2;
    job.checkpoint.memory.every = 1;
    job.cluster.spares = spares;
    for (int64_t n = 0; n < 2 + spares; ++n)
      job.cluster.node.push_back({.name = "n" + std::to_string(n),
                                  .host = n < 2 ? "a" : "b",
                                  .workers = 1,
                                  .spare = n >= 2});
    CHECK(keepers_of(job) == std::vector<int>{1, 0});
    CHECK(on_one_host(job));
    job.cluster.launch = config::launch_mode::external;
    CHECK_FALSE(on_one_host(job));
  }
}

TEST_CASE("KPR-2: on another host, and outside the rank's groups, where the layout allows") {
  const auto homes = homes_of(std::vector<int>(8, 1), 2);  // two nodes a host
  const rank_grid grid{4, 1, 2};
  const auto keepers = keepers_of(grid, homes);
  for (int r = 0; r < 8; ++r) {
    const int k = keepers[static_cast<size_t>(r)];
    CHECK(homes[static_cast<size_t>(r)].host != homes[static_cast<size_t>(k)].host);
    CHECK(grid.place_of(r).pipeline != grid.place_of(k).pipeline);
    CHECK(grid.place_of(r).data != grid.place_of(k).data);
  }
  // Where no layout is outside the groups, it still is another host.
  const auto alone = keepers_of({4, 1, 1}, homes_of({1, 1, 1, 1}, 2));
  for (int r = 0; r < 4; ++r) CHECK(r / 2 != alone[static_cast<size_t>(r)] / 2);
  // Two replicas are each other's keepers: there is nobody else.
  CHECK(keepers_of({2, 1, 1}, homes_of({1, 1})) == std::vector<int>{1, 0});
}

TEST_CASE("KPR-3: each keeps one where a shift serves everybody, and no one all where none does") {
  const auto even = keepers_of({8, 1, 4}, homes_of({8, 8, 8, 8}));
  CHECK(std::set<int>(even.begin(), even.end()).size() == 32);
  for (int r = 0; r < 32; ++r) CHECK(kept_by(even, r).size() == 1);
  const auto odd = keepers_of({6, 1, 1}, homes_of({4, 1, 1}));
  CHECK(kept_by(odd, 4).size() <= 3);
  CHECK(kept_by(odd, 5).size() <= 3);
}

TEST_CASE("a job's keepers are those of its nodes, and nobody's where it takes no copies") {
  config::job job;
  job.parallel.data = 2;
  job.cluster.node = {{"a", "host0", 1}, {"b", "host1", 1}};
  CHECK(keepers_of(job).empty());
  job.checkpoint.memory.every = 1;
  CHECK(keepers_of(job) == std::vector<int>{1, 0});
  CHECK_FALSE(on_one_host(job));
  job.cluster.node[1].host = "host0";
  CHECK(on_one_host(job));
}
