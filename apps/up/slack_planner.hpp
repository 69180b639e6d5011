// The plan of a job's slack (power.slack), made beside its start: from power.profile, which is read
// before anything begins. Where that file does not exist yet, the job measures it in its first
// steps (job_profile.hpp): it is written then, and planned by.
//
// Invariants
//   SLJ-1  What is wrong with the profile, or does not fit the job, is said before anything starts.
//   SLJ-2  Planning, which takes seconds, holds nothing up: until it is done there is no plan. It
//     ends with this object.
//   SLJ-3  What is measured is written as a whole or not at all, in the form of any profile, and a
//     line says so where its joules are modelled. What no plan can be made of is not: the job's
//     next start would be refused for it.
//   SLJ-5  What is measured is of micro-batches of one size, which the file says: it is none of a
//     job with others. One that does not say it is taken for the job's.
//   SLJ-4  Without power.profile the file is clocks.csv in the job's output folder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "actors/job/plan.hpp"
#include "actors/power/job_slack.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// A profile of another job: what it has, and what the job has.
inline constexpr error_kind<std::string_view, std::string> profile_unfit{
    "profile_unfit", errc::bad_config, "power.profile {} is not of this job: {}",
    "remove it, or name a file that does not exist, and the job measures it anew; or set "
    "power.slack = \"off\""};

/// Stages and operations of a step, and how many slack is planned for.
inline constexpr error_kind<size_t, size_t, size_t, size_t> slack_too_large{
    "slack_too_large", errc::bad_config,
    "a step of {} stages and {} operations is more than slack is planned for: {} and {}",
    "make micro-batches larger (train.micro_batch), or set power.slack = \"off\""};

class slack_planner {
 public:
  /// Null where the job takes no slack. Errors: not_found, where there is no folder for a file that
  /// is to be measured; io; bad_profile, with the file's name; profile_unfit; slack_too_large.
  static result<std::shared_ptr<slack_planner>> begin(const train::job_plan& plan);
  ~slack_planner();
  slack_planner(const slack_planner&) = delete;
  slack_planner& operator=(const slack_planner&) = delete;

  /// For the pacer. What it looks at lives as long as the last copy of it.
  power::slack_look look() const;
  /// For the pacer, too: how a profile is measured; none: there is one. What takes it lives as long
  /// as the last copy.
  std::optional<power::profile_order> profiles() const;

 private:
  struct desk;
  struct planned_job;
  explicit slack_planner(const planned_job& job);
  void plan_by(std::unique_ptr<power::frontier_policy> policy);
  void await_profile();

  std::shared_ptr<desk> desk_;
  std::unique_ptr<const planned_job> job_;
  bool measures_ = false;
};

}  // namespace troupe::apps
