// What earlier launches have left in the folders of a job's checkpoints, before it starts.
#pragma once

#include "apps/up/start_warnings.hpp"
#include "io/base/result.hpp"
#include "io/checkpoint/line.hpp"
#include "io/config/job.hpp"

namespace troupe::apps {

/// Removes what interrupted saves and copies have left there.
status remove_leftovers(const config::checkpoint_section& c, start_warnings& warnings);

/// Leaves what leads to this start, and sets the rest aside.
status leave_behind(const config::job& job, const io::checkpoint::origin& origin,
                    start_warnings& warnings);

}  // namespace troupe::apps
