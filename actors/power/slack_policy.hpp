// Which point of its slack_plan a job runs at: T = min(max(T_min, straggler), T_star) (Perseus,
// SOSP'24), each step's end anew.
//
// T_min is the step that the highest clocks make, T_star the step of least energy. A replica that
// is slower than its plan says holds all of them up: it runs at T_min's point, the others as slowly
// as it lets them. What counts are steps that were measured: first some at the highest clocks, by
// which the profile's times are scaled; then whether replicas keep to what was planned.
//
// Invariants
//   SLT-1  No point but one of the plan: no clock that was not profiled.
//   SLT-2  While there is no plan, nothing was measured, a budget paces the job, or the actuator
//     saves no energy, every replica is at the highest clocks.
//   SLT-3  A straggler counts after `held_steps` steps, and is let go in the first that is as short
//     as planned: nobody waits for one who has recovered.
//   SLT-4  A straggler is never slowed: it is at T_min's point.
//   SLT-5  More than half of the replicas longer than planned, `stale_steps` times in a row, are no
//     stragglers: the profile is of another job or time, and the clocks are the highest until there
//     is another plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "actors/power/slack_plan.hpp"

namespace troupe::power {

enum class slack_state : uint8_t {
  off,        ///< at the highest clocks, and `slack_reason` says why
  measuring,  ///< at the highest clocks, to know how long a step is there
  planned,    ///< at T_min's point
  held        ///< a straggler holds the step up: the others are slower
};
std::string_view to_string(slack_state s);

/// Why slack is off.
enum class slack_reason : uint8_t {
  none,
  no_plan,
  no_saving,     ///< the actuator makes the same joules later
  paced,         ///< a budget's pace is of the whole job already
  unlike,        ///< a step at the highest clocks is not as long as the profile says
  stale,         ///< steps have become longer than planned (SLT-5)
  late_setting,  ///< clocks came later than the plan has it
  refused,       ///< a device did not take one
  no_clocks,     ///< a rank cannot set the clock of its operations
  other_job,     ///< the plan is of other stages or micro-batches
  unmeasured     ///< there is no profile, and none came of the job's own steps
};
std::string_view to_string(slack_reason r);
/// For a person; empty: that needs no word.
std::string_view in_words(slack_reason r);

struct slack_terms {
  int measured_steps = 3;  ///< at the highest clocks, before anything is slowed
  int held_steps = 3;
  double straggles = 0.02;  ///< longer than planned by this share
  int stale_steps = 3;
  double stale = 0.01;
  double unlike = 0.1;  ///< of the profile's step, more or less
  /// Operations that began at too low a clock; a step without any takes off a third.
  int most_late = 3;
  bool saves_energy = true;
};

/// What one step has shown.
struct slack_sample {
  /// How long the pipeline of each replica took, before it waited for the others.
  std::span<const double> replica_s;
  bool paced = false;  ///< a budget held the step's pace below 1
  uint64_t late = 0;   ///< operations that began at a lower clock than planned
};

class slack_policy {
 public:
  /// One replica at least.
  slack_policy(size_t replicas, const slack_terms& terms);

  /// From the next step on; `plan` lives as long as this or until the next one.
  void begin(const slack_plan& plan);
  /// The job has recovered, or its devices have changed: measured anew.
  void restarted();
  /// Nothing is slowed until it is restarted, or there is another plan.
  void stop(slack_reason why) { go(slack_state::off, why); }
  /// A step has ended.
  void step(const slack_sample& sample);

  slack_state state() const noexcept { return state_; }
  slack_reason reason() const noexcept { return reason_; }
  /// The step that is planned for, as it will be measured; 0 where there is none.
  double target_s() const noexcept { return target_s_; }
  /// The point of a replica; none: the highest clocks.
  std::optional<size_t> point_of(size_t replica) const;
  bool straggles(size_t replica) const { return replicas_[replica].straggles; }

 private:
  struct one_replica {
    double measured_s = 0;  ///< in all measured steps
    int slow_steps = 0;     ///< in a row
    double factor = 1;      ///< longer than planned, of the last step
    bool straggles = false;
    size_t point = 0;
  };

  void go(slack_state state, slack_reason reason);
  void measure(const slack_sample& sample);
  void judge(const slack_sample& sample);
  void aim();
  double planned_s(size_t point) const { return plan_->points[point].cost.time_s * scale_; }

  slack_terms terms_;
  const slack_plan* plan_ = nullptr;
  slack_state state_ = slack_state::off;
  slack_reason reason_ = slack_reason::no_plan;
  std::vector<one_replica> replicas_;
  int measured_ = 0, longer_ = 0;
  uint64_t late_ = 0;
  double scale_ = 1;  ///< a measured step, of the profile's
  double target_s_ = 0;
};

}  // namespace troupe::power
