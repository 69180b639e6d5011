// Who is slow, and what a step would take without: hosts, devices, pipelines, noise, epochs.
#include "actors/health/straggler_policy.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::health;

namespace {

constexpr int slow_micro_batches = 8;

struct judged_ranks {
  rank_grid grid;
  straggler_policy policy;
  std::vector<std::string> nodes;
  step_window window;

  /// So many ranks a node, in the order of ranks, "n0" first; all take `own_ms`.
  judged_ranks(rank_grid of, int ranks_a_node, float own_ms = 100)
      : grid(of), policy(of, slow_micro_batches, 0.1) {
    for (int r = 0; r < grid.ranks(); ++r) nodes.push_back(fmt::format("n{}", r / ranks_a_node));
    window = {1, 10, 64, 1, 0, std::vector<float>(static_cast<size_t>(grid.ranks()), own_ms)};
    window.step_ms = 200;
  }
  float& own(int rank) { return window.own_ms[static_cast<size_t>(rank)]; }
  straggler_policy::verdict judge(int windows = 1) {
    straggler_policy::verdict out;
    for (int i = 0; i < windows; ++i) out = policy.judge(window, nodes);
    return out;
  }
};

}  // namespace

TEST_CASE("SLW-3: a rank that is slow with its whole node: slow_host, and a step without it") {
  judged_ranks of({4, 1, 1}, 1);
  of.own(2) = 150;
  const auto v = of.judge(2);
  CHECK(v.step_ms == 200);
  CHECK(v.without_ms == doctest::Approx(150));
  REQUIRE(v.slow.size() == 1);
  CHECK(v.slow[0] ==
        health::straggler{"n2", 2, slow_class::slow_host, v.slow[0].cost_ms, 2, false});
  CHECK(v.slow[0].cost_ms == doctest::Approx(50));
}

TEST_CASE("SLW-3: all ranks of a node are a slow_host, one of several is a slow_device") {
  judged_ranks of({8, 1, 1}, 2);
  of.own(2) = 150;
  of.own(3) = 140;
  auto v = of.judge(2);
  REQUIRE(v.slow.size() == 1);
  CHECK(v.slow[0].node == "n1");
  CHECK(v.slow[0].rank == -1);
  CHECK(v.slow[0].what == slow_class::slow_host);
  CHECK(v.without_ms == doctest::Approx(150));
  of.own(2) = 100;
  v = of.judge(2);
  REQUIRE(v.slow.size() == 1);
  CHECK(v.slow[0].node == "n1");
  CHECK(v.slow[0].rank == 3);
  CHECK(v.slow[0].what == slow_class::slow_device);
  judged_ranks alone({4, 1, 1}, 4);  // no other node
  alone.own(1) = 150;
  CHECK(alone.judge(2).slow.at(0).what == slow_class::slow_device);
  std::ranges::fill(alone.nodes, "");  // nor any that is known
  CHECK(alone.judge(2).slow.at(0).what == slow_class::slow_device);
}

TEST_CASE("SLW-1: two that are equally slow are both named, and a step is without both") {
  judged_ranks of({8, 1, 1}, 1);
  of.own(1) = of.own(6) = 160;
  const auto v = of.judge(2);
  REQUIRE(v.slow.size() == 2);
  CHECK(v.slow[0].cost_ms == doctest::Approx(60));
  CHECK(v.slow[1].cost_ms == doctest::Approx(60));
  CHECK(v.without_ms == doctest::Approx(140));
}

TEST_CASE("SLW-1: who has slack, and who is slow by less than the limit, is not named") {
  judged_ranks of({2, 1, 2}, 1);
  of.own(2) = of.own(3) = 180;  // the last stage takes long with both replicas
  of.own(0) = 130;              // and hides this one
  CHECK(of.judge(3).slow.empty());
  of.own(2) = 215;
  const auto v = of.judge(2);
  REQUIRE(v.slow.size() == 1);
  CHECK(v.slow[0].rank == 2);
  judged_ranks little({4, 1, 1}, 1);
  little.own(0) = 119;
  CHECK(little.judge(3).slow.empty());
}

TEST_CASE("SLW-1: in a pipeline of replicas a rank is held against the peers of its stage") {
  judged_ranks of({4, 1, 4}, 1);
  for (int r = 12; r < 16; ++r) of.own(r) = 170;  // the last stage has more to do
  CHECK(of.judge(3).slow.empty());
  of.own(14) = 220;
  const auto v = of.judge(2);
  REQUIRE(v.slow.size() == 1);
  CHECK(v.slow[0].rank == 14);
  CHECK(v.without_ms == doctest::Approx(150));
}

TEST_CASE("SLW: of one rank a stage, a stage with more work is nobody's fault") {
  judged_ranks of({1, 1, 4}, 1);
  of.own(3) = 180;
  CHECK(of.judge(20).slow.empty());
  judged_ranks one({1, 1, 1}, 1);
  CHECK(one.judge(20).slow.empty());
  one.own(0) = 1000;
  CHECK(one.judge(20).slow.empty());
}

TEST_CASE("SLW: of one rank a stage, who has become slower than the others have is slow") {
  judged_ranks of({1, 1, 4}, 1);
  of.own(3) = 150;
  of.judge(3);
  of.own(1) = 190;
  of.window.step_ms = 245;
  const auto v = of.judge(2);
  REQUIRE(v.slow.size() == 1);
  CHECK(v.slow[0].node == "n1");
  CHECK(v.slow[0].rank == 1);
  CHECK(v.without_ms == doctest::Approx(245 - 46.25 + 90.0 / 8 - 50.0 / 8).epsilon(0.05));
  for (int r = 0; r < 4; ++r) of.own(r) *= 2;  // all of them, as on a machine that is shared
  of.own(1) = 200;
  of.window.step_ms = 490;
  CHECK(of.judge(3).slow.empty());
}

TEST_CASE("SLW-2: named after two windows, for long after five, one after the other") {
  judged_ranks of({2, 1, 1}, 1);
  of.own(1) = 200;
  CHECK(of.judge().slow.empty());
  for (uint64_t n = 2; n <= 12; ++n) {
    CAPTURE(n);
    const auto v = of.judge();
    REQUIRE(v.slow.size() == 1);
    CHECK(v.slow[0].windows == n);
    CHECK(v.slow[0].for_long == (n == 5 || n == 10));
  }
  of.own(1) = 100;
  of.judge();
  of.own(1) = 200;
  CHECK(of.judge().slow.empty());
  CHECK_FALSE(of.judge(3).slow.at(0).for_long);
  of.own(0) = 400;  // another one: it has windows of its own
  CHECK(of.judge().slow.empty());
  CHECK_FALSE(of.judge(3).slow.at(0).for_long);
  CHECK(of.judge().slow.at(0).for_long);
}

TEST_CASE("SLW-4: an epoch, or other work, begins anew") {
  judged_ranks of({2, 1, 1}, 1);
  of.own(1) = 200;
  of.judge(4);
  of.window.epoch = 2;
  CHECK(of.judge().slow.empty());
  CHECK_FALSE(of.judge(3).slow.at(0).for_long);
  of.window.tokens = 65;
  CHECK(of.judge().slow.empty());
  CHECK(of.judge(4).slow.at(0).for_long);
}

TEST_CASE("SLW: whatever noise all ranks have alike, nobody is named") {
  for (const rank_grid grid : {rank_grid{2, 1, 1}, {1, 1, 2}, {2, 1, 2}, {4, 1, 2}, {64, 1, 1}})
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      sim::rng random(seed);
      judged_ranks of(grid, 1);
      for (int n = 0; n < 200; ++n) {
        const double shared = 1 + random.unit();  // what steps take varies by a factor of two
        for (auto& own : of.window.own_ms)
          own = static_cast<float>(0.050 * shared * (0.97 + 0.06 * random.unit()));
        of.window.step_ms = 0.1 * shared;
        CHECK(of.judge().slow.empty());
      }
    }
}

TEST_CASE("SLW-5: of thousands of ranks the worst are told") {
  judged_ranks of({2048, 1, 2}, 8);
  for (int r = 0; r < 1000; ++r) of.own(r) = 150 + static_cast<float>(r % 7);
  for (int r = 0; r < 1000; r += 8) of.own(r) = 100;  // no whole node
  const auto v = of.judge(2);
  REQUIRE(v.slow.size() == straggler_policy::most_told);
  CHECK(v.slow.front().cost_ms >= v.slow.back().cost_ms);
  CHECK(v.slow.back().cost_ms == doctest::Approx(56));
}

TEST_CASE("SLW: a window that does not fit, and a limit of nothing, name nobody") {
  judged_ranks of({2, 1, 1}, 1);
  of.own(1) = 200;
  of.nodes.pop_back();
  CHECK(of.judge(3).slow.empty());
  judged_ranks off({2, 1, 1}, 1);
  off.policy = straggler_policy({2, 1, 1}, 1, 0);
  off.own(1) = 200;
  CHECK(off.judge(3).slow.empty());
}
