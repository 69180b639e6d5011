// A parent of many leaves in a tree of budgets, tick by tick, and the time that its decisions take:
// the part of `troupe bench power` that needs no machine.
//
// Leaves are lease_policy, the parent is budget_policy: what the simulation and the tests have.
// Wishes and the parent's own cap change by seed, so that there is always somebody to cut and
// somebody to raise. What is timed is the parent's tick, and apart from it what it costs to hear
// all reports of a tick; no message, no network.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/power/budget_policy.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::power_bench {

struct tree_plan {
  power::budget_mode mode = power::budget_mode::shares;
  int leaves = 10'000;
  int ticks = 200;
  uint64_t seed = 1;
};

struct tree_measurement {
  std::vector<double> tick_ms;  ///< of the parent's decision
  std::vector<double> hear_ms;  ///< of all reports before it
  uint64_t grants = 0;          ///< sent
  uint64_t changes = 0;         ///< of caps that leaves had, up or down
  int64_t most_counted_mw = 0;  ///< what children might draw, as the parent counts it
  int64_t most_own_mw = 0;
  /// Ticks in which a parent in shares counted more than its own cap (PWR-1). With one that falls
  /// they are those until the leaves have told that they follow.
  uint64_t over = 0;
  uint64_t rose_over = 0;  ///< of them those in which it counted more than in the tick before
};

/// Errors: bad_config.
result<tree_measurement> measure_tree(const tree_plan& plan);

}  // namespace troupe::apps::power_bench
