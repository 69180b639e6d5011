// What steps of earlier jobs took on this machine, and what is expected of the next job's by that
// (io/perf/past_runs.hpp).
//
// A job that ends leaves a line beside the facts of its head's machine, if it made steps that
// nothing held up and it is known what machines it was on: this one alone, or those that its nodes
// told of (apps/run_machines.hpp). Whoever plans or starts a job is told what the same work took on
// the same machines; where it is new, what other work there lets expect, by its FLOP, model, batch
// and ranks (gpu/predict/online_policy.hpp). How far expectations were off there stands beside
// them. Nothing is measured for that.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/report/report.hpp"
#include "apps/run_machines.hpp"
#include "io/config/job.hpp"
#include "io/machine/facts.hpp"
#include "io/perf/past_runs.hpp"

namespace troupe::apps {

/// All that decides how long a step of the job takes, a line for each key. Of settled jobs.
std::string work_of(const config::job& job);

/// Times of steps that nothing held up: no validation, save, pace, clock that is tried or missing
/// replica; and not the first ones of a run.
class step_times {
 public:
  /// `flops`: of the step, as its plan counts them (train::flops_of_step); what documents leave of
  /// them is not known when the next job is planned.
  void hear(const report::step_report& step, double flops);

  /// As it will be remembered; nothing where it made too few steps, or where it was on machines
  /// that are not known (`elsewhere`: those of a job that is not of this machine alone).
  std::optional<io::perf::past_run> run_of(const config::job& job,
                                           const std::optional<report::expected_ms>& expected,
                                           const std::optional<run_machines>& elsewhere = {}) const;

 private:
  static constexpr size_t kept_steps = 65'536;

  size_t heard_ = 0;
  double flops_ = 0;
  std::vector<float> ms_;
};

/// What is expected of a step by earlier runs.
struct past_expectation {
  io::perf::past_estimate step;
  io::perf::past_ledger ledger;
  bool elsewhere = false;  ///< on other machines than this one alone
};

/// On this machine, or on those `elsewhere`. Nothing where nothing is known, and without those of a
/// job that is not of this machine alone.
std::optional<past_expectation> expect_by_past(const config::job& job, double flops,
                                               const io::fact_store& store = {},
                                               const std::optional<run_machines>& elsewhere = {});

/// By what all runs on these machines took, whatever their work was; `shape` as a run keeps it.
/// Nothing where none of them is near enough to such work.
std::optional<io::perf::past_estimate> estimate_by_other_work(
    std::span<const io::perf::past_run> runs, const std::vector<double>& shape, double flops,
    std::string_view machines = this_machine_alone);

/// The file that this machine's runs are remembered in; empty where there is no place.
std::filesystem::path past_runs_file(const io::fact_store& store = {});

/// "318 ms a step (290 to 350), by 1,240 steps of 9 runs of this work here; expectations were off
/// by 4 % (median of 9), 11 % at most"; of other machines "on these machines" for "here".
std::string past_text(const past_expectation& e);
nlohmann::ordered_json past_json(const past_expectation& e);

/// For a summary.
report::expected_ms as_expected_ms(const past_expectation& e);

/// Remembers the run, or says why it cannot be.
status remember_run(const io::perf::past_run& run, const io::fact_store& store = {});

}  // namespace troupe::apps
