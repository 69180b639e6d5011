// Who comes into which place, by table.
#include "actors/cluster/places_policy.hpp"

#include <doctest/doctest.h>

#include "actors/cluster/evictions_policy.hpp"

using namespace troupe::cluster;

namespace {

using numbers = std::vector<uint32_t>;

/// Three places of one worker and four cores each.
places_policy three(const place_needs& needs = {1, 4, 4, 0, "x"}) {
  places_policy p(3);
  for (uint32_t place = 0; place < 3; ++place) p.fix(place, needs);
  return p;
}

spare_node spare(uint32_t node, int64_t workers = 1, int64_t cores = 8, int64_t gpus = 0,
                 const std::string& host = "") {
  const auto name = "node" + std::to_string(node);
  return {node, name, workers, cores, gpus, "x", host.empty() ? name : host};
}

numbers nodes_of(const places_policy& p) {
  numbers out;
  for (uint32_t place = 0; place < p.size(); ++place) out.push_back(p.node_of(place));
  return out;
}

}  // namespace

TEST_CASE("places: lost nodes are followed by spares, first fit, a place keeps a node that lives") {
  struct row {
    const char* what;
    numbers lost;
    std::vector<spare_node> spares;
    numbers then;
    size_t passed;
  };
  const row rows[] = {
      {"nobody is lost", {}, {spare(3)}, {0, 1, 2}, 0},
      {"one spare", {1}, {spare(3)}, {0, 3, 2}, 0},
      {"two are lost, one spare", {0, 2}, {spare(3)}, {3, 1, 2}, 0},
      {"two are lost, two spares", {0, 2}, {spare(3), spare(4)}, {3, 1, 4}, 0},
      {"no spare", {1}, {}, {0, 1, 2}, 0},
      {"too few cores", {1}, {spare(3, 1, 3)}, {0, 1, 2}, 1},
      {"too few workers", {1}, {spare(3, 0)}, {0, 1, 2}, 1},
      {"the second one fits", {1}, {spare(3, 1, 3), spare(4)}, {0, 4, 2}, 1},
  };
  for (const auto& r : rows) {
    CAPTURE(r.what);
    auto p = three();
    const auto f = p.fill(r.lost, r.spares);
    CHECK(nodes_of(p) == r.then);
    CHECK(f.passed.size() == r.passed);
    for (const auto& t : f.taken) {
      CHECK(p.place_of(t.to) == t.place);
      CHECK_FALSE(p.place_of(t.from));  // PLA-1: it is a spare once it is back
      CHECK_FALSE(t.other_cpu);
    }
  }
}

TEST_CASE("PLA-6: who has less memory than the ranks of a place take does not come into it") {
  auto p = three();
  auto small = spare(3);
  small.memory_bytes = 7999;
  CHECK(p.candidate(1, {small}));  // nobody knows what they take
  p.takes_memory(1, 8000);
  CHECK_FALSE(p.candidate(1, {small}));
  CHECK(p.candidate(0, {small}));
  CHECK(p.candidate(1, {spare(3)}));  // it does not say what it has
  const auto refused = p.fill({1}, {small});
  CHECK(refused.taken.empty());
  REQUIRE(refused.passed.size() == 1);
  CHECK(refused.passed[0].spare == "node3");
  small.memory_bytes = 8000;
  CHECK(p.fill({1}, {small}).taken.size() == 1);
}

TEST_CASE("PLA-6: what a spare takes of the memory of its host, the other spares there lack") {
  for (const bool has_both : {false, true}) {
    auto p = three();
    p.takes_memory(0, 9000);
    p.takes_memory(1, 8000);
    auto first = spare(3, 1, 8, 0, "h"), second = spare(4, 1, 8, 0, "h"), other = spare(5);
    first.memory_bytes = second.memory_bytes = has_both ? 17'000 : 16'999;
    other.memory_bytes = 7000;
    const auto f = p.fill({0, 1}, {first, second, other});
    REQUIRE(f.taken.size() == (has_both ? 2 : 1));
    CHECK(f.taken[0].to == 3);
    if (has_both) CHECK(f.taken[1].to == 4);
    CHECK(f.passed.size() == (has_both ? 0 : 2));
  }
  auto p = three();
  p.takes_memory(0, 9000);
  p.takes_memory(1, 2);
  auto first = spare(3, 1, 8, 0, "h"), second = spare(4, 1, 8, 0, "h");
  first.memory_bytes = second.memory_bytes = 9000;  // all of it is taken, which is not "unknown"
  CHECK(p.fill({0, 1}, {first, second}).taken.size() == 1);
}

TEST_CASE("PLA-2: what a place asks for is fixed with its first ranks, whoever is in it later") {
  auto p = three({1, 4, 4, 1, "x"});
  REQUIRE(p.is_fixed());
  p.fix(1, {1, 9, 9, 9, "y"});
  CHECK(p.needs_of(1).threads == 4);
  CHECK_FALSE(p.candidate(1, {spare(3)}));  // it computes on a GPU
  auto other = spare(3, 1, 8, 1);
  other.cpu_model = "y";
  const auto f = p.fill({1}, {other});
  REQUIRE(f.taken.size() == 1);
  CHECK(f.taken[0].other_cpu);
  CHECK(p.needs_of(1).threads == 4);
  CHECK(p.fill({1}, {spare(1, 1, 8, 1)}).taken.at(0).from == 3);  // and back again
}

TEST_CASE("PLA-4: a GPU is given to one place, however many are lost at once") {
  struct row {
    const char* what;
    int64_t needs;
    std::vector<spare_node> spares;
    numbers then;
    size_t passed;
  };
  const auto on = [](uint32_t node, int64_t gpus, const char* host) {
    return spare(node, 4, 8, gpus, host);
  };
  const row rows[] = {
      {"one GPU, two spares", 1, {on(3, 1, "h"), on(4, 1, "h")}, {3, 1, 2}, 1},
      {"a GPU each", 1, {on(3, 2, "h"), on(4, 2, "h")}, {3, 1, 4}, 0},
      {"two hosts", 1, {on(3, 1, "h"), on(4, 1, "k")}, {3, 1, 4}, 0},
      {"the next host", 1, {on(3, 1, "h"), on(4, 1, "h"), on(5, 1, "k")}, {3, 1, 5}, 1},
      {"two workers each, three GPUs", 2, {on(3, 3, "h"), on(4, 3, "h")}, {3, 1, 2}, 1},
      {"without GPUs", 0, {on(3, 0, "h"), on(4, 0, "h")}, {3, 1, 4}, 0},
  };
  for (const auto& r : rows) {
    CAPTURE(r.what);
    auto p = three({1, 4, 4, r.needs, "x"});
    const auto f = p.fill({0, 2}, r.spares);
    CHECK(nodes_of(p) == r.then);
    CHECK(f.passed.size() == r.passed);
  }
}

TEST_CASE("PLA-5: places that are not used have nodes that are spares, and no node has two") {
  struct row {
    const char* what;
    size_t used;
    numbers lost;
    std::vector<spare_node> spares;
    numbers then, with_all;
  };
  const row rows[] = {
      {"the last one is lost", 2, {}, {}, {0, 1}, {0, 1, 2}},
      {"the first one is lost", 2, {0}, {spare(2)}, {2, 1}, {2, 1, 0}},
      {"a spare comes first", 2, {0}, {spare(3), spare(2)}, {3, 1}, {3, 1, 2}},
      {"one is left", 1, {0}, {spare(2)}, {2}, {2, 1, 0}},
      {"all are used", 9, {0}, {spare(3)}, {3, 1, 2}, {3, 1, 2}},
  };
  for (const auto& r : rows) {
    CAPTURE(r.what);
    auto p = three();
    p.use(r.used);
    for (uint32_t place = static_cast<uint32_t>(p.size()); place < 3; ++place)
      CHECK_FALSE(p.place_of(place));
    p.fill(r.lost, r.spares);
    CHECK(nodes_of(p) == r.then);
    p.use(p.all());
    CHECK(nodes_of(p) == r.with_all);
    CHECK(p.needs_of(2).threads == 4);
  }
}

TEST_CASE("EVC-2: twice within an hour is reason to evict, an admission forgets it") {
  constexpr int64_t minute_ns = 60'000'000'000;
  evictions_policy e;
  e.note_loss("n", 0);
  CHECK_FALSE(e.is_unreliable("n", 0));
  e.note_loss("m", minute_ns);
  CHECK_FALSE(e.is_unreliable("n", minute_ns));
  e.note_loss("n", 59 * minute_ns);
  CHECK(e.is_unreliable("n", 59 * minute_ns));
  CHECK_FALSE(e.is_unreliable("n", 60 * minute_ns));  // the first is an hour ago
  e.note_loss("n", 100 * minute_ns);
  CHECK(e.is_unreliable("n", 100 * minute_ns));
  e.evict("n", "was lost");
  CHECK(e.why("n") == "was lost");
  CHECK(e.all() == std::vector<std::string>{"n"});
  CHECK(e.last_loss_ns("n") == 100 * minute_ns);  // EVC-3
  CHECK(e.last_loss_ns("m") == minute_ns);
  CHECK(e.admit("n"));  // EVC-1
  CHECK_FALSE(e.admit("n"));
  CHECK_FALSE(e.is_evicted("n"));
  CHECK_FALSE(e.is_unreliable("n", 100 * minute_ns));
}

TEST_CASE("PLA-7: nodes change places before they compute, and what places ask for is fixed anew") {
  places_policy p(3);
  for (uint32_t place = 0; place < 3; ++place) p.fix(place, {1, 4 + place, 4, 0, "x"});
  REQUIRE(p.is_fixed());
  p.move({2, 0, 1});
  CHECK(nodes_of(p) == numbers{2, 0, 1});
  CHECK(p.place_of(2) == 0);
  CHECK_FALSE(p.is_fixed());
  for (uint32_t place = 0; place < 3; ++place) p.fix(place, {1, 7 + place, 4, 0, "x"});
  CHECK(p.is_fixed());
  CHECK(p.needs_of(1).threads == 8);
  const auto f = p.fill({1}, {spare(3)});
  REQUIRE(f.taken.size() == 1);
  CHECK(nodes_of(p) == numbers{2, 3, 1});
}
