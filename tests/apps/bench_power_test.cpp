// `troupe bench power` in process: what it measures is a tree that divides. Timing decides nothing.
#include "apps/bench/power_tree.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::apps::power_bench;

namespace {

tree_measurement tree_of(power::budget_mode mode, uint64_t seed = 1) {
  tree_plan plan;
  plan.mode = mode;
  plan.leaves = 40;
  plan.ticks = 300;
  plan.seed = seed;
  auto m = measure_tree(plan);
  REQUIRE_MESSAGE(m, (m ? std::string() : render(m.error())));
  CHECK(m->tick_ms.size() == 300);
  CHECK(m->hear_ms.size() == 300);
  return std::move(*m);
}

}  // namespace

TEST_CASE(
    "bench power: leaves in shares are cut and raised; above a budget that fell nothing rises") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto m = tree_of(power::budget_mode::shares, seed);
    CHECK(m.grants >= 300 * 40 / 9);  // a lease of nine seconds is renewed before it ends
    CHECK(m.changes >= 300);
    CHECK(m.most_counted_mw <= m.most_own_mw);
    CHECK(m.over < 30);  // ticks until all follow a budget that has fallen
    CHECK(m.rose_over == 0);
    const auto again = tree_of(power::budget_mode::shares, seed);
    CHECK(again.grants == m.grants);
    CHECK(again.changes == m.changes);
  }
}

TEST_CASE("bench power: thresholds promise more than there is") {
  const auto m = tree_of(power::budget_mode::thresholds);
  CHECK(m.most_counted_mw > m.most_own_mw);
  CHECK(m.over == 300);
  CHECK(m.grants >= 300 * 40 / 9);
}

TEST_CASE("bench power: a tree without leaves is refused") {
  tree_plan plan;
  plan.leaves = 0;
  const auto m = measure_tree(plan);
  REQUIRE_FALSE(m);
  CHECK(m.error().code == errc::bad_config);
}
