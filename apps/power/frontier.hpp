// What `troupe power frontier` tells: the frontier, beside the clocks that a pipeline has without
// it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "actors/power/frontier_policy.hpp"
#include "apps/command_line.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::power_verb {

/// A pipeline whose clocks were measured, as it is typed.
struct pipeline_typed {
  std::string profile;
  int micro_batches = 0;
  double blocking_w = 0;
};
void add_pipeline(command* verb, pipeline_typed& into);
/// Errors: usage, not_found, io, bad_profile, with its path.
result<std::unique_ptr<troupe::power::frontier_policy>> read_pipeline(const pipeline_typed& typed);
/// Its whole frontier; says on a terminal how far it is.
troupe::power::frontier plan_pipeline(troupe::power::frontier_policy& policy);

struct frontier_told {
  const troupe::power::frontier_policy& policy;
  const troupe::power::frontier& found;
  /// Everything at the highest clock: what a job does that plans nothing.
  troupe::power::clock_table highest;
  troupe::power::table_cost highest_cost;
  /// How long the step lasts that was asked for; none: only the frontier was.
  std::optional<double> step_s;

  /// The point that was asked for, else the one of an unchanged step.
  const troupe::power::frontier_point& shown() const {
    return found.at(step_s.value_or(highest_cost.time_s));
  }
  /// The energy of a step of `step_s` at a point, where devices wait for its end.
  double energy_in_j(const troupe::power::frontier_point& p, double step_s) const;
  /// The share of energy that the clocks of an unchanged step save, and what any could at most.
  double saved() const;
  double saved_at_most() const;
};

std::string frontier_text(const frontier_told& told);
/// One object, without a line end.
std::string frontier_json(const frontier_told& told);
/// The pipeline before and after, and the frontier; light and dark.
std::string frontier_svg(const frontier_told& told);
/// stage,instruction,micro_batch,frequency: in the order of the schedule, stage by stage.
std::string frontier_plan(const frontier_told& told);

}  // namespace troupe::apps::power_verb
