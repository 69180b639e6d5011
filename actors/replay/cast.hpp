// Fresh actors for a replay, made from the birth of the recorded one.
#pragma once

#include "actors/replay/lives.hpp"
#include "actors/replay/parts.hpp"
#include "actors/sim/world.hpp"

namespace troupe::replay {

/// What a fresh actor needs besides its birth.
struct surroundings {
  sim::world& world;
  resolver actor_of;  ///< the puppet of a name
  /// The puppet for the next actor it spawns as `role`.
  std::function<caf::strong_actor_ptr(const std::string& role)> spawned;
};

/// Whether an actor of this kind can be replayed, and if not, why; also whether what it reads is
/// here. Errors: unavailable, not_found.
status can_be_replayed(const story& life);

/// Spawns it. Errors: bad_config, bad_data where its birth does not hold what it needs.
result<caf::strong_actor_ptr> cast(const story& life, const surroundings& around);

}  // namespace troupe::replay
