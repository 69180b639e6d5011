// What a rank is at, from what its stage and its worker published on the registry: nobody is asked,
// and nobody waits.
//
// Pure, but for reading the views that it is handed.
#pragma once

#include "actors/base/actor_registry.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

/// How many ranks a heartbeat tells of, at most.
inline constexpr size_t most_ranks_told = 64;

/// Of the rank whose stage and worker these are.
fbs::RankVitalsT rank_vitals(uint32_t rank, const actor_view& stage, const actor_view& worker,
                             int64_t now_ns);

/// That its worker computes with; 0: not known.
uint16_t rank_threads(const actor_view& worker);

}  // namespace troupe::health
