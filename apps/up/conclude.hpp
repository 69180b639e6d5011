// What a run came to, for the person who started it: its exit code, its summary, a sample.
#pragma once

#include "apps/up/reporter.hpp"
#include "apps/up/stop_signals.hpp"
#include "apps/up/watch.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::apps {

/// The exit code of a run that is over; shows the summary. A signal that comes from now on leaves
/// out the sample and changes no code: what the run came to stands.
result<int> conclude(const config::job& job, run_outcome& outcome, const run_end& ended,
                     const stop_signals& signals);

}  // namespace troupe::apps
