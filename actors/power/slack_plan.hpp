// What a running job may take of a frontier: tables of clocks that a device can follow.
//
// Setting a clock takes time (`set_s`, some 5 to 20 ms), and operations are as short as that. So
// neighbours in the order of a stage whose clock would change again before the change is through
// share the higher clock; time and energy are of THAT table, by the profile's rows. The order goes
// round: after a stage's last operation comes the first of the next step.
//
// Invariants
//   SLP-1  No operation gets a lower clock than the frontier's table gives it, and each gets one of
//     its own rows.
//   SLP-2  From one change of a stage's clock to the next passes what setting takes at least; where
//     a lower clock is left for a higher one, what setting takes twice: down, and up in time.
//   SLP-3  Points are strictly monotone: the longer the step, the less the pipeline costs in one
//     that lasts as long anyway. The first is as fast as all operations at their highest clock.
#pragma once

#include <cstddef>
#include <stop_token>
#include <vector>

#include "actors/power/frontier_policy.hpp"
#include "gpu/controls/stage_clocks_policy.hpp"

namespace troupe::power {

/// A table that devices can follow, by the number of its operations in the pipeline_dag.
struct slack_point {
  table_cost cost;
  clock_table clocks;
};

struct slack_plan {
  table_cost highest;  ///< of everything at the highest clock: a job without slack
  std::vector<slack_point> points;
  size_t least = 0;  ///< the point of least energy: no step is worth being longer

  /// The point that costs least in a step which lasts `step_s` anyway; the first where none is as
  /// short.
  size_t at(double step_s) const;
  /// The point that keeps the step as long as it is at the highest clocks.
  size_t unchanged() const { return at(highest.time_s); }
};

/// Row 0 is the highest clock of any stage's device, whatever its number: two rows of that kind are
/// one clock.
int clock_of(const clock_profile& profile, const pipeline_node& node, size_t row);
/// The row of the lowest clock that is not below `mhz`.
size_t row_not_below(const std::vector<clock_row>& rows, int mhz);

/// A table as each stage has it: its operations in the order in which they run.
std::vector<std::vector<gpu::controls::clocked_operation>> clocks_by_stage(
    const pipeline_dag& dag, const clock_profile& profile, const clock_table& clocks);

/// What of an operation's time a change of its clock may take: it begins at a higher one.
double lead_of(const std::vector<clock_row>& rows, size_t row, double set_s);

/// The table with the clocks that devices can follow which need `set_s` (>= 0) for each change.
clock_table followable(const pipeline_dag& dag, const clock_profile& profile, clock_table clocks,
                       double set_s);

/// A frontier's points, as devices can follow them. `over`: nobody wants it any more, which is seen
/// before each point: what comes then has none.
slack_plan plan_slack(const frontier_policy& policy, const frontier& found, double set_s,
                      const std::stop_token& over = {});

}  // namespace troupe::power
