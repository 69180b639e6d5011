// What a job's workers could do at most where they are on this machine (ceiling.hpp).
#pragma once

#include <memory>

#include "apps/ceiling_watch.hpp"
#include "io/config/job.hpp"

namespace troupe::apps {

/// The ceiling of all workers together, where they are on this machine; null otherwise.
std::shared_ptr<ceiling_watch> local_peak(const config::job& job);

}  // namespace troupe::apps
