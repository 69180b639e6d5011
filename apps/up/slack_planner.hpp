// The plan of a job's slack (power.slack), made beside its start: from power.profile, which is read
// before anything begins.
//
// Invariants
//   SLJ-1  What is wrong with the profile, or does not fit the job, is said before anything starts.
//   SLJ-2  Planning, which takes seconds, holds nothing up: until it is done there is no plan. It
//     ends with this object.
#pragma once

#include <memory>

#include "actors/job/plan.hpp"
#include "actors/power/job_slack.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// A profile of another job: what it has, and what the job has.
inline constexpr error_kind<std::string_view, std::string> profile_unfit{
    "profile_unfit", errc::bad_config, "power.profile {} is not of this job: {}",
    "measure it anew, or set power.slack = \"off\""};

class slack_planner {
 public:
  /// Null where the job takes no slack. Errors: not_found, io; bad_profile, with the file's name;
  /// profile_unfit.
  static result<std::shared_ptr<slack_planner>> begin(const train::job_plan& plan);
  ~slack_planner();
  slack_planner(const slack_planner&) = delete;
  slack_planner& operator=(const slack_planner&) = delete;

  /// For the pacer. What it looks at lives as long as the last copy of it.
  power::slack_look look() const;

 private:
  struct desk;
  explicit slack_planner(std::unique_ptr<power::frontier_policy> policy);
  std::shared_ptr<desk> desk_;
};

}  // namespace troupe::apps
