// What a start and a check say of a job's drills ([[inject]]).
#pragma once

#include <string>
#include <vector>

#include "io/config/load.hpp"

namespace troupe::apps {

/// What each will do: "drill 1, step 30: rank 2 hangs".
std::vector<std::string> drills_in_words(const config::job& job);

/// Errors: bad_config, at the first one's place, where there are any and they are not `allowed`.
status check_drills_allowed(const config::loaded& job, bool allowed);

}  // namespace troupe::apps
