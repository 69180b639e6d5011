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

#include <optional>
#include <span>

#include "apps/report/report.hpp"
#include "io/config/job.hpp"
#include "messages/step_parts.hpp"

namespace troupe::apps {

/// From the times of a step's operations; none: none of them is swapping's.
std::optional<report::swap_traffic> swap_of(std::span<const train::step_part> parts,
                                            const config::job& job);

/// Whether what the step took may be held against the drive (SST-2).
bool tells_of_drive(const report::step_report& r);

}  // namespace troupe::apps
