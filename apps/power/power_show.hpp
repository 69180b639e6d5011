// `troupe power show FILE`: what a served budget saw, as a picture and in words.
//
// The trace has a line a tick (actors/power/budget_trace.hpp); a picture has columns, each of some
// ticks, by time: where nothing was known, or nobody served it, there is a gap.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "actors/power/budget_trace.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::power_verb {

/// A trace, and where it was read.
struct budget_told {
  std::string file;
  std::vector<power::budget_trace_row> ticks;  ///< two at least
};

/// Ticks of a column.
struct trace_column {
  size_t ticks = 0;  ///< 0: nothing is known
  double least_w = 0, most_w = 0, mean_w = 0;
  power::budget_trace_row last = {};                   ///< of them
  double low = 1, high = 1;                            ///< the least
  power::trace_brake brake = power::trace_brake::off;  ///< the strongest
};

/// Evenly by time.
std::vector<trace_column> columns_of(const std::vector<power::budget_trace_row>& ticks,
                                     size_t count);

/// What it comes to. A tick holds until the next one, but no longer than `gap_s`.
struct trace_sums {
  double span_s = 0, step_s = 0;  ///< from the first to the last; the usual one between two
  double known_s = 0;
  double mean_w = 0, most_w = 0;
  double energy_j = 0;
  double over_s = 0;  ///< more than the budget is drawn
  double low_capped_s = 0, high_capped_s = 0;
  double set_s = 0, pulled_s = 0;  ///< a brake holds work
  uint64_t brakes = 0;             ///< pulled
  bool modelled = false;
};
trace_sums sums_of(const std::vector<power::budget_trace_row>& ticks);

/// Errors: not_found, io, bad_number_table, bad_trace, with the path.
result<budget_told> read_budget_trace(const std::string& file);

std::string budget_svg(const budget_told& told);
std::string budget_text(const budget_told& told);
std::string trace_json(const budget_told& told);

}  // namespace troupe::apps::power_verb
