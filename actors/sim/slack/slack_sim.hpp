// A pipeline's replicas on devices whose clocks can be set, step by step: what planned slack does
// to the length of steps and to joules.
//
// Stages run by the policy of real ones (train::step_policy), devices do one thing at a time, a
// step ends for all replicas when the last has ended. Before each step slack_policy says which
// point each replica runs at; stage_clocks_policy asks each device for its clocks, which come
// `set_s` later: one change after the other, of several wishes the newest. A change of clock
// stretches what is left of the operation under way; watts follow the clock. No actors.
//
// Invariants
//   SLS-1  The same options give the same outcome, bit for bit; work is as uneven with slack as
//     without it.
//   SLS-2  Joules are those of operations at the clocks they had, and of waiting for all other time
//     of every device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/power/slack_policy.hpp"
#include "io/base/result.hpp"

namespace troupe::sim {

struct slack_options {
  static constexpr int most_slack_replicas = 256;
  static constexpr int most_slack_steps = 100'000;
  /// Operations of all steps and replicas.
  static constexpr int64_t most_slack_operations = int64_t{1} << 26;

  int replicas = 2;
  int steps = 60;
  double set_s = 0.01;     ///< what a change of a clock takes
  double uneven = 0.001;   ///< operations last longer or shorter by up to this share
  double straggler = 1;    ///< the last replica takes so many times as long
  int straggler_from = 0;  ///< steps from it on, until the other
  int straggler_until = 0;
  double late_s = 0;  ///< a change takes so much longer than is known, from a step on
  int late_from = 0;
  bool slack = true;  ///< false: everything at the highest clocks
  uint64_t seed = 1;
};

/// Of a pipeline of so many operations. Errors: usage, with the option's name.
status check(const slack_options& o, size_t operations);

struct slack_step {
  double step_s = 0, energy_j = 0;
  power::slack_state state = power::slack_state::off;  ///< that it ran by
  power::slack_reason reason = power::slack_reason::none;
  double target_s = 0;
  bool straggles = false;  ///< the last replica is held for one
  uint64_t changes = 0;    ///< of clocks
  uint64_t late = 0;       ///< operations that began at a lower clock than planned
};

/// Each step; `plan` is of `policy`'s frontier, for changes of `o.set_s`.
std::vector<slack_step> simulate_slack(const power::frontier_policy& policy,
                                       const power::slack_plan& plan, const slack_options& o);

}  // namespace troupe::sim
