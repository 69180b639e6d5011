// A data-parallel job of many simulated devices under a budget that falls, by a tree of budgets:
// the part of `troupe bench power` that says how much speed the tree and its delays cost.
//
// Feed, rows, racks, machines and devices are the policies that are served: budget_policy divides,
// node_lease_policy and lease_policy hold what was granted, budget_schedule says what the feed has.
// A tick is a second; a report waits for its parent's tick and a grant for its child's, so that a
// cut takes a tick a level. All ranks take a clock at a step's boundary, and each step is as slow
// as its slowest rank.
//
// What the ways are held against is the best uniform clock in hindsight: in each second the
// greatest clock at which all devices together, by what they really draw, are within the budget of
// that second. It knows every device and the next fall, and nothing delays it.
//
// Pure: no clock, no file; the same plan gives the same numbers.
//
// Invariants
//   BPD-1  Speed above the budget counts for nothing: a second in which more is drawn than there is
//     counts at most as that of the best uniform clock.
//   BPD-2  The devices' watts by clock are another law than the one that the job goes by, and no
//     two devices are alike: what it knows of them is what their meters say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::apps::power_bench {

/// Of a job's ranks.
enum class rank_clocks : uint8_t {
  together,  ///< one clock, that of the tightest; what a rank cannot use it does not ask for
  alone      ///< each one the clock of its own cap
};

struct devices_plan {
  /// Of each node of a level: rows of the feed, racks of a row, machines of a rack, devices of one.
  std::vector<int> children = {8, 24, 8, 8};
  /// What the feed has: t_s,watts. Empty: falling_budget().
  std::string budget_csv;
  int step_s = 6;         ///< MegaScale's of 12,288 devices is 6.34 s
  int last_row_s = 60;    ///< how long the table's last row is watched
  double spread = 0.05;   ///< of devices' watts at work, up to this share more or less
  double exponent = 1.8;  ///< of watts at work by clock; the job goes by the square
  double noise = 0.005;   ///< of a reading, up to this share more or less
  uint64_t seed = 1;
};

/// Watts of all devices at their greatest clock, those of a mean device.
double full_watts(int devices);
/// A table that falls by 4 % of them each minute, from 1.04 of them down to 0.6.
std::string falling_budget(int devices);

struct devices_run {
  double speed = 0;        ///< mean, of that at the greatest clock
  double of_best = 0;      ///< of the best uniform clock's (BPD-1)
  double used = 0;         ///< what was drawn, of the budget, mean of the seconds within it
  int over_s = 0;          ///< seconds in which more was drawn than there was
  int longest_over_s = 0;  ///< of them the most in a row
  int seconds = 0;         ///< that were watched
};

struct devices_measurement {
  int devices = 0;
  int seconds = 0;
  double best_speed = 0;  ///< of the best uniform clock, mean, of that at the greatest clock
  devices_run together, alone;
  /// Where as few ranks are capped as will do, each at the least clock: every step waits for them.
  double few_of_best = 0;
  double few_ranks = 0;  ///< that are capped, mean
  double decide_ms = 0;  ///< the median of the decisions of all nodes in a second
};

/// Errors: bad_config, bad_schedule, bad_number_table.
result<devices_measurement> measure_devices(const devices_plan& plan);

}  // namespace troupe::apps::power_bench
