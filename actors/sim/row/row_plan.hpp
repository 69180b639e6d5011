// How many servers an operator's own row has room for: its trace, grown and resampled, goes through
// the row's policy.
//
// Weeks are drawn with replacement, and of a trace by server each server of each week, too: the
// same week for all servers, since what moves them together (a busy day) is what fills a row. A
// trace of the whole row grows in proportion, bursts included. What caps take is what they take of
// energy: a request at a lower clock draws less for longer. Both are on the safe side of the
// simulator.
//
// Invariants
//   RWP-1  Doubt lowers the answer, never raises it: what a trace does not show (another week, a
//     gap, what happened between slow samples) counts as watts that are added to all of it.
//   RWP-2  The same trace, options and seed give the same plan.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/power/row_trace.hpp"
#include "actors/sim/row/row_sim.hpp"
#include "io/base/result.hpp"

namespace troupe::sim {

inline constexpr error_kind<std::string> short_trace{
    "short_trace", errc::bad_data, "the trace spans {}", "a plan needs an hour, and better weeks"};
inline constexpr error_kind<double, double> slow_trace{
    "slow_trace", errc::bad_data, "the trace's samples are {:g} s apart, {:g} are the most",
    "what a row draws at its peaks is in no average of so long"};
inline constexpr error_kind<double, double> watts_beyond{
    "watts_beyond", errc::bad_data, "the row's peak is {:.4g} and its budget {:.4g} W",
    "both are watts of all servers together; is one of them in kilowatts?"};

struct plan_options {
  row_options row;              ///< servers that the trace is of, policy, budget, weeks, seed
  bool own_thresholds = false;  ///< as `row` has them; else as the trace's rises ask for
  size_t resamples = 20;
};

/// With so many servers more; powers are shares of the budget.
struct plan_row {
  int added = 0;
  double t1 = 0, t2 = 0, t3 = 0;
  double peak = 0;                          ///< of all resamples
  double lp_capped = 0, hp_capped = 0;      ///< of the time, the mean of resamples
  double lp_slowdown = 1, hp_slowdown = 1;  ///< times as long, the mean over all time
  uint64_t brakes = 0;                      ///< of the resample that has most
  size_t clean = 0;                         ///< resamples without a brake
};

struct row_plan {
  double rise = 0;                 ///< of the trace, within telemetry and actuation; of the budget
  double rise_s = 0;               ///< that time, by the trace's samples
  double doubt = 0;                ///< by this share all watts are raised
  std::vector<std::string> notes;  ///< why
  std::vector<plan_row> rows;      ///< from none added on
  int servers_added = 0;  ///< the most, with those below, that had no brake in any resample
  bool fits = false;      ///< whether the row as it is had none

  const plan_row& answer() const { return rows[static_cast<size_t>(servers_added)]; }
};

/// `told` is called with each number of servers that is tried. The options have been checked.
/// Errors: short_trace, slow_trace, watts_beyond.
result<row_plan> plan_row_growth(const power::row_trace& trace, const plan_options& options,
                                 const std::function<void(int added)>& told = {});

}  // namespace troupe::sim
