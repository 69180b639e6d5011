// What a step's operations say of the drive that holds some of the model.
//
// Pure.
//
// Invariants
//   SST-1  Operations of several kinds read at once, and share the drive: each one's time has the
//     others' in it. So the drive was busy for as long as the longest kind, at least; the sum of
//     all would make a healthy drive look slow.
//   SST-2  A step that a power budget slowed down or held tells nothing of the drive: who moves its
//     bytes was slowed down with it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "apps/report/report.hpp"
#include "io/config/job.hpp"
#include "messages/schemas/status_generated.h"
#include "messages/step_parts.hpp"

namespace troupe::apps {

/// From the times of a step's operations, of one rank or of all; none: none of them is swapping's.
/// How often its passes were made is swap_of's to tell.
std::optional<report::swap_traffic> moved_in(std::span<const train::step_part> parts);
/// The same with the passes of a job's step.
std::optional<report::swap_traffic> swap_of(std::span<const train::step_part> parts,
                                            const config::job& job);

/// How fast bytes moved in so much time (SST-1); 0 where there was none.
double bytes_per_s(uint64_t bytes, double busy_ms);

/// What Status says of such a step; all that the job has written so far, the step's own included,
/// and what its drive is rated for, in terabytes.
fbs::SwapStepT status_of(const report::step_report& r, uint64_t job_written_bytes,
                         int64_t rated_tbw);

/// Whether what the step took may be held against the drive (SST-2).
bool tells_of_drive(const report::step_report& r);

}  // namespace troupe::apps
