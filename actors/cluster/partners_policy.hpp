// Which nodes talk with each other, so that each is told of those alone (CRD-9).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "actors/job/plan.hpp"

namespace troupe::cluster {

/// By node, by index: those with whose actors its own talk, seen from both ends. They are the
/// neighbours of its ranks in the pipeline, and a loader and the stages it serves (`loaders`: ranks
/// by the loader's node). Collectives are no talk of actors.
std::map<uint32_t, std::set<uint32_t>> partners_of(
    const train::job_plan& plan, const std::map<uint32_t, std::vector<uint32_t>>& loaders);

}  // namespace troupe::cluster
