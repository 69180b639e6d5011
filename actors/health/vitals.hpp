// Vitals: samples what the machine of a node says of itself, every second, and publishes it; the
// node's heartbeat takes the newest sample from there without asking.
//
// Why an actor of its own, detached: files of a kernel in trouble, a disk and a driver block.
//
// Invariants
//   VIT-1  It changes nothing of the machine.
//   VIT-2  A sample says when it was taken: one that hangs is seen by its age.
//
// Failure policy: done without. Its node hears of its death, says so, and tells of its ranks alone.
#pragma once

#include <functional>
#include <string>

#include "actors/base/traced.hpp"
#include "actors/health/machine_sampler.hpp"
#include "messages/actors.hpp"

namespace troupe::health {

struct vitals_options {
  std::string node;
  uint32_t epoch = 0;
  /// Called once, on the actor's thread.
  std::function<machine_sampler()> open = {};
};

struct vitals_state {
  static inline const char* name = "vitals";
  vitals_options options;
  machine_sampler sample;
  fbs::MachineVitalsT last;
};
using vitals_pointer = traced_pointer<vitals_actor, vitals_state>;

vitals_actor::behavior_type vitals(vitals_pointer self, vitals_options options);

}  // namespace troupe::health
