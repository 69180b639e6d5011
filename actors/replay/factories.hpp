// Which kinds of actors can be made anew from their record, and how.
#pragma once

#include "actors/job/spawn_record.hpp"
#include "actors/replay/actor_logs.hpp"
#include "actors/sim/world.hpp"
#include "io/base/error_kind.hpp"

namespace troupe::replay {

/// An actor whose answers come from its device and from the data plane; and which have replays.
inline constexpr error_kind<std::string_view, std::string_view> answers_from_device{
    "answers_from_device", errc::unavailable,
    "{0} cannot be replayed: its answers come from its device and from other ranks over the data "
    "plane, which no recording holds",
    "replay its stage, which tells it what to do; {1}"};

/// Whether an actor of this kind can be replayed, and if not, why; also whether what it reads is
/// here. Errors: unavailable, not_found.
status can_be_replayed(const logged_actor& log);

/// Spawns an actor of a kind that can be replayed, for this log of it. Errors: bad_data where its
/// record lacks what it needs.
result<caf::strong_actor_ptr> make_actor(const logged_actor& log, train::spawn_record record,
                                         sim::world& world);

}  // namespace troupe::replay
