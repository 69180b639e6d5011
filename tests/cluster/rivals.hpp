// A second launcher of a job whose first one lives: it is refused with 75 and told who holds the
// folders, and the first goes on as if it had not been there.
#pragma once

#include <string>
#include <vector>

#include "tests/cluster/job_files.hpp"

namespace troupe::cluster_test {

/// While all processes of the first are stopped: so what the folders hold must be the same after
/// it, but for what the kernel still writes to files of a save under way.
void challenge_frozen(const program& first, const std::vector<watched>& nodes,
                      const std::vector<std::string>& arguments,
                      const std::vector<fs::path>& folders);

/// While the first runs; false when that had its end meanwhile, and nobody was to be refused.
bool challenge_running(const program& first, const std::vector<std::string>& arguments);

}  // namespace troupe::cluster_test
