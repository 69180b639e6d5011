// How long a step of a job takes on this machine, roughly, before it starts: the planned work of
// each stage over what a layer was measured to do a moment ago, along the pipeline's schedule.
//
// What is not in it: what ranks send each other, the norm, data, checkpoints and validations, and
// that several ranks share a machine's memory. So it is told as an interval, from what a step can
// hardly be quicker than to what one that has all this was seen to take (docs/predict.md says of
// which runs).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "actors/job/plan.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/memory_estimate.hpp"
#include "apps/swap/rates.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// What a worker here does, and how many can do it at once.
struct measured_worker {
  swap::paces paces;
  int threads = 1;
  int64_t cores = 1;

  /// Workers that have processors of their own.
  int64_t at_once() const { return std::max<int64_t>(1, cores / threads); }
};

/// In a second or so: of a layer of the job's model, or of a part of one where that is large, as
/// often at once as ranks compute at once. Errors: unavailable where it is not the host's
/// processors that compute, or a layer is too large; no_memory.
result<measured_worker> measure_worker(const train::job_plan& plan);

/// Seconds.
struct expected_step {
  std::vector<train::stage_seconds> stages;
  double step_s = 0, least_s = 0, most_s = 0;
  double idle_share = 0;  ///< of the pipeline's time, of all stages together: the bubble
  double tokens_s = 0;
  double run_s = 0;  ///< all steps of the job
};

/// What a worker does on each machine, and which machine each node is.
struct job_machines {
  std::vector<measured_worker> machines;
  std::vector<size_t> of_node;
};

/// A stage is as slow as the slowest of its replicas; the interval is as below.
expected_step expect_step_on(const train::job_plan& plan,
                             const std::vector<train::planned_stage>& stages,
                             const job_machines& where);
/// The same where all nodes are one machine.
expected_step expect_step(const train::job_plan& plan,
                          const std::vector<train::planned_stage>& stages,
                          const measured_worker& worker);

/// How long the forwards and backwards of a step take along 1F1B (power::pipeline_dag).
double pipeline_seconds(const std::vector<train::stage_seconds>& stages, int64_t micro_batches);

/// Layers for the stages that a step would be at least a fiftieth shorter with, if there are such
/// that fit this machine, and the step then.
struct better_cut {
  std::string layers;  ///< as parallel.layers
  expected_step expected;
};
std::optional<better_cut> better_cut_of(const train::job_plan& plan, const expected_step& now,
                                        const measured_worker& worker,
                                        const train::machine& machine);

/// A line with its end: what to set, in place of what.
std::string better_cut_text(const train::job_plan& plan, const better_cut& better,
                            const expected_step& now);

/// For people, lines with their ends, of which the first one begins so; for programs. Of the times
/// alone, whatever they rest on.
std::string times_text(const train::job_plan& plan, const expected_step& expected,
                       std::string_view begin);
nlohmann::ordered_json times_json(const expected_step& expected);

/// What a layer was measured to do just now: a line with its end.
std::string measured_text(const measured_worker& worker);

/// The times with that.
std::string expected_text(const train::job_plan& plan, const expected_step& expected,
                          const measured_worker& worker);
nlohmann::ordered_json expected_json(const expected_step& expected, const measured_worker& worker);

}  // namespace troupe::apps
