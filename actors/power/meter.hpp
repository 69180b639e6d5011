// The meter: reads what the machine's devices draw and how warm they are, every so often, and says
// so: in its stats (which `nodes`, `ps` and `status` show), as counters in the flight recorder
// (which become tracks of a trace), and to whoever asks.
//
// Why an actor of its own, detached: a driver blocks when a device is in trouble, and then nobody
// else may wait for it.
//
// Invariants
//   MTR-1  It reads and never changes anything.
//   MTR-2  An answer is the last reading and says when that was: a meter that hangs is seen by its
//     age.
//   MTR-3  Readings are due at whole intervals after the first, however long one takes; those that
//     were missed are left out.
//
// Failure policy: done without. Its node hears of its death, says so, and has no readings.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/power/energy_account.hpp"
#include "gpu/meters/readers.hpp"
#include "messages/actors.hpp"

namespace troupe::power {

struct meter_options {
  std::string node;
  uint32_t epoch = 0;
  int64_t interval_ms = 1000;
  std::string machine = {};  ///< whose watts these are, once
  /// Called once, on the actor's thread.
  std::function<std::vector<std::unique_ptr<gpu::meter_reader>>()> open = {};
  /// Empty: it is not known.
  std::function<gpu::processor_seconds()> processor_time = {};
};

struct meter_state {
  static inline const char* name = "meter";
  meter_options options;
  bool opened = false;
  int64_t due_ns = 0;  ///< when the next reading is
  std::optional<energy_account> energy;
  std::vector<std::unique_ptr<gpu::meter_reader>> readers;
  gpu::processor_seconds processor_time;  ///< at the last reading
  fbs::MeterReadingsT last;
};
using meter_pointer = traced_pointer<meter_actor, meter_state>;

meter_actor::behavior_type meter(meter_pointer self, meter_options options);

}  // namespace troupe::power
