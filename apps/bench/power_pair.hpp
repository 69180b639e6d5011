// Two jobs and the budget above them, as `troupe bench power` starts, hears and ends them.
//
// Each job is a rank of a thread. Their machine draws nothing idle, by its model, so a budget is
// one of processors.
//
// Invariants
//   BPS-2  Each loss of each job is compared, as a double, with that of the first job that made
//     the step: all jobs make the same ones, whatever they are granted.
//   BPS-3  Budget and jobs have a folder of signs of their own: they find each other and nobody
//     else, and leave nothing there.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/job_launch.hpp"
#include "apps/bench/power_job.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::power_bench {

inline constexpr size_t job_count = 2;

struct pair_plan {
  std::filesystem::path folder;             ///< for budgets and jobs, marked as scratch
  std::vector<std::string> sets;            ///< KEY=VALUE, of all jobs
  const std::atomic<bool>* stop = nullptr;  ///< a person interrupts
};

/// Of the budget above both.
struct budget_terms {
  double watts = 0;
  bool has_priority = false;  ///< the first job is of high priority
  double static_of = 0.4;     ///< the share of it that each job has where nobody is heard
  bool pulls_brake = true;    ///< by itself, too
};

/// A job while it is watched.
struct paired_job {
  job_launch launch;
  std::optional<double> first_s = {};                 ///< when its first step had been made
  std::vector<std::pair<double, double>> steps = {};  ///< when each was heard of, and its time
  std::string power_source = {};
  double longest_op_ms = 0;  ///< of all its steps
};

/// What is known of both while they train.
struct job_pair {
  std::vector<job_launch> budget;  ///< one, or none
  std::vector<paired_job> both;
  live_losses& truth;  ///< BPS-2
  bool same_bits = true;
};

/// Before the first of them. Errors: io.
status make_pair_folder(const pair_plan& plan);

/// The configuration of the budget.
std::string budget_text(const std::filesystem::path& folder, const budget_terms& terms);

/// The program and what finds this budget and these jobs alone (BPS-3).
std::vector<std::string> pair_words(const pair_plan& plan);

/// It listens before jobs look for it.
status start_budget(const pair_plan& plan, const budget_terms& terms, job_pair& w);
status start_jobs(const pair_plan& plan, bool has_budget, job_pair& w);

/// Each process for a little while. Errors: unavailable where one has ended; cancelled.
status hear_in_turn(const pair_plan& plan, job_pair& w);

/// Until both have been watched for so long since both had made a step: from when to when that was.
/// Errors: timeout where one makes none, and those of hear_in_turn().
result<std::pair<double, double>> watch_both(const pair_plan& plan, double seconds, job_pair& w);

std::vector<pid_t> jobs_of(const job_pair& w);

/// Nothing of them writes any more.
void end_all(job_pair& w);

}  // namespace troupe::apps::power_bench
