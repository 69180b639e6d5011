// What people use instead, for `troupe-bench recovery`: torchrun, which starts all ranks again.
#pragma once

#include <vector>

#include "apps/bench/recovery_round.hpp"

namespace troupe::apps::recovery_bench {

/// torchrun with DistributedDataParallel over gloo.
std::vector<way> rival_ways();

}  // namespace troupe::apps::recovery_bench
