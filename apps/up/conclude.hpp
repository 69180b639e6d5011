// What a run came to, for the person who started it: its exit code, its summary, a sample.
#pragma once

#include "apps/up/reporter.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::apps {

/// The exit code of a run that is over and that `signal` ended (0: none did); shows the summary.
result<int> conclude(const config::job& job, run_outcome& outcome, int signal);

}  // namespace troupe::apps
