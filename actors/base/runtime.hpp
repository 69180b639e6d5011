// The runtime: what steers and keeps the messages, records and logs of one actor system. It comes
// to the system with its configuration; two systems of a process have two, and know nothing of each
// other's actors.
//
//   runtime_config config;
//   caf::actor_system system(config);
//   runtime_of(system).registry.find("stage/3");
//
// What is the process's and not here: its identities (identities.hpp), the flight memory, the names
// of work, the counters of refused messages, and whether it has fallen silent in a drill.
//
// Invariants
//   RTM-1  A traced actor belongs to the runtime of its system from its spawn on, and keeps it
//     alive. One that is spawned in a system without a runtime is a bug.
#pragma once

#include <atomic>
#include <memory>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "actors/base/actor_log.hpp"
#include "actors/base/actor_registry.hpp"
#include "actors/base/trust.hpp"
#include "actors/capture/recorder.hpp"
#include "actors/capture/tap.hpp"

namespace troupe {

class simulated_network;

/// All members may be used by any thread.
class runtime {
 public:
  actor_registry registry;
  recorder records;
  tap messages;
  peer_book peers;
  actor_log_factory logs;

  /// What a simulation puts between all actors; nullptr in real time. Set before the first actor.
  simulated_network* network = nullptr;

  /// Kept by the node, shown by the observer.
  void set_clock(clock_relation now) noexcept;
  clock_relation clock() const noexcept { return {clock_offset_ns_, clock_bound_ns_}; }

 private:
  std::atomic<int64_t> clock_offset_ns_{0};
  std::atomic<int64_t> clock_bound_ns_{-1};
};

/// The configuration of an actor system with a runtime of its own; all messages are registered.
class runtime_config : public caf::actor_system_config {
 public:
  explicit runtime_config(std::shared_ptr<runtime> in = std::make_shared<runtime>());

  const std::shared_ptr<runtime> own;
};

/// The runtime of a system that was made with a runtime_config (RTM-1).
const std::shared_ptr<runtime>& shared_runtime_of(const caf::actor_system& system);
inline runtime& runtime_of(const caf::actor_system& system) {
  return *shared_runtime_of(system);
}

/// Declared behind an actor system, it waits for the end of its actors before the system goes.
struct orderly_end {
  const caf::actor_system& system;
  ~orderly_end() { runtime_of(system).registry.await_empty(); }
};

}  // namespace troupe
