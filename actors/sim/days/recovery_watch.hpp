// What a simulated cluster's recoveries took, phase by phase, and its time ledger: seen in the
// messages that pass, so that nothing in the actors is there for it.
//
//   recovery_watch watch(options.faults);
//   options.sees = [&](const any_msg& m, int64_t now_ns) { watch.see(m, now_ns); };
#pragma once

#include <cstdint>
#include <vector>

#include "actors/health/time_ledger_policy.hpp"
#include "actors/sim/faults.hpp"
#include "actors/sim/scheduler.hpp"
#include "messages/any_msg.hpp"

namespace troupe::sim {

/// When a recovery came to what; 0: never.
struct recovery_times {
  int64_t fault_ns = 0;      ///< the last one before it was noticed
  int64_t noticed_ns = 0;    ///< the run begins an epoch
  int64_t quiet_ns = 0;      ///< the last rank of the epoch before has ended
  int64_t members_ns = 0;    ///< ranks are given out
  int64_t connected_ns = 0;  ///< ranks are built and their groups connected
  int64_t restored_ns = 0;   ///< the first step begins
  int64_t stepped_ns = 0;    ///< and has ended
  uint64_t step = 0;         ///< it goes on after
  uint32_t epoch = 0;        ///< in which it does
};

class recovery_watch {
 public:
  explicit recovery_watch(std::vector<fault> faults) : faults_(std::move(faults)) {
    ledger_.begin(virtual_clock::begin_ns);
  }

  void see(const any_msg& m, int64_t now_ns);
  /// The ledger is closed at the last event.
  void end(int64_t now_ns) { ledger_.end(now_ns); }

  const std::vector<recovery_times>& recoveries() const noexcept { return recoveries_; }
  const health::time_ledger_policy& ledger() const noexcept { return ledger_; }
  /// When the first step of all began; 0: none did.
  int64_t first_step_ns() const noexcept { return first_step_ns_; }

 private:
  void notice(uint32_t epoch, int64_t now_ns);
  void begin_step(uint64_t step, uint32_t epoch, int64_t now_ns);
  void end_step(uint64_t step, uint32_t epoch, int64_t now_ns);
  recovery_times* open() noexcept;

  std::vector<fault> faults_;
  std::vector<recovery_times> recoveries_;
  health::time_ledger_policy ledger_;
  int64_t first_step_ns_ = 0;
};

}  // namespace troupe::sim
