// Identities of a process: what makes keys of actors and spans unique in the cluster. They are the
// process's, not an actor system's: a record names its actor by a number alone.
#pragma once

#include <cstdint>

namespace troupe {

/// The number of this process in the keys of its actors and spans: drawn at random, or 1 in a
/// simulation.
uint32_t process_tag() noexcept;

/// For simulation: identities that repeat. Also restarts the counters.
void fix_identities(uint32_t tag) noexcept;

/// A new span id: unique in the cluster, never 0.
uint64_t next_span() noexcept;

/// A new actor's number: unique in the process, from 1, rising.
uint32_t next_actor_number() noexcept;

}  // namespace troupe
