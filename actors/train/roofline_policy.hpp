// What the parts of a rank's step take by what its machine was probed to do
// (io/perf/hw_profile.hpp): a roofline, which layers do not reach (gpu/predict/roofline.hpp).
//
// Invariants
//   RFL-1  What a profile has no number for is left out: nothing is guessed.
#pragma once

#include <optional>
#include <vector>

#include "actors/job/plan.hpp"
#include "actors/train/memory_estimate.hpp"
#include "io/config/job.hpp"
#include "io/perf/hw_profile.hpp"
#include "messages/step_parts.hpp"

namespace troupe::train {

/// Of the host's processors, by so many threads: they have their share of what all reached. In FLOP
/// a second of products in the type that the job computes in, and parameters a second of AdamW.
/// Nothing where the profile lacks what is asked for (RFL-1).
std::optional<double> probed_flops_s(const io::perf::hw_profile& is, config::compute_dtype dtype,
                                     int threads);
std::optional<double> probed_updates_s(const io::perf::hw_profile& is, int threads);

/// Forward, backward and update of a rank of the stage, of a whole step: busy_ms is the roofline,
/// and work as the engine counts it. Empty for a job that swaps, whose drive is not in it.
std::vector<step_part> roofline_parts(const job_plan& plan, const planned_stage& stage,
                                      const io::perf::hw_profile& is, int threads);

}  // namespace troupe::train
