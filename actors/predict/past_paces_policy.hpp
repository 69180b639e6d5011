// How quick each node was at a job's work in earlier runs, by what these have kept: what outranks
// anything that a node measures of a layer, as whole steps leave nothing out.
//
// Pure. A run's pace on a node is what its ranks computed of a step over what forward and backward
// took them together. How much runs differ is seen from few of them, so as many pseudo-runs differ
// as those of a machine that nobody else uses (own_past_policy.hpp).
//
// Invariants
//   PPC-1  Only times of the same work count, but for layers, batch, replicas and stages, of which
//     the pace is taken per operation: the same model, micro-batch, number format and workers. Of
//     an earlier release's times neither the run nor the work is known: they do not count.
//   PPC-2  Who has the head computes it, too: a rank's work is that of its layers and, where its
//     times say that it was of the last stage, of the head.
//   PPC-3  A run counts that has `least_windows` of both parts. Of each node, machine and number of
//     threads the newest `runs_kept` runs count; of these the newest `past_paces_kept`.
//   PPC-4  No interval is narrower than 3 % either way; by one run it is 16 %.
#pragma once

#include <span>
#include <vector>

#include "io/base/model_config.hpp"
#include "io/config/job.hpp"
#include "io/perf/part_times.hpp"
#include "io/perf/past_pace.hpp"

namespace troupe::predict {

/// The oldest first, as the times are. `model`: what the job's is.
std::vector<io::perf::past_pace> past_paces(std::span<const io::perf::part_time> times,
                                            const config::job& job, const model_config& model);

}  // namespace troupe::predict
