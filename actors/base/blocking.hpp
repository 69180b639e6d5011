// Spawning actors whose handlers may block: on files, drivers, tokenising.
#pragma once

#include <utility>

#include <caf/actor_system.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/spawn_options.hpp>

namespace troupe {

/// Spawns an actor on a thread of its own, or, where the system's scheduler keeps its own actors to
/// one thread (a simulation's does: its files and devices take virtual time), among all others.
template <class Parent, class F, class... Ts>
auto spawn_blocking(Parent* parent, F behaviour, Ts&&... arguments) {
  if (parent->system().scheduler().detaches_utility_actors())
    return parent->template spawn<caf::detached>(behaviour, std::forward<Ts>(arguments)...);
  return parent->spawn(behaviour, std::forward<Ts>(arguments)...);
}

}  // namespace troupe
