// What a launch writes in its log before anything else is told of it, and what persons set in it.
#pragma once

#include <optional>

#include "actors/control/gateway.hpp"
#include "actors/job/catalog.hpp"
#include "apps/up/reporter.hpp"
#include "apps/up/run_log.hpp"
#include "io/config/job.hpp"

namespace troupe::apps {

/// The line of the start and, where the job goes on from a checkpoint, that of the resume; the
/// outcome's summary says so as well.
void begin_log(run_log& log, run_outcome& outcome, const config::job& job, uint32_t epoch,
               const std::optional<checkpoint::resume_point>& resume);

/// A line of the log and of the summary.
void log_setting(run_log& log, run_outcome& outcome, const trace::setting_taken& taken);

}  // namespace troupe::apps
