// What became of the faults of a simulation: those that were done, and those that had no effect,
// each with a reason and a remedy.
//
// Why: a fault whose time lies behind the end, or whose victim holds nothing, looks like a run that
// withstood it.
//
// Pure: it is told what happens.
//
// Invariants
//   FRC-1  Each fault of the options is in what was done or in what had no effect, or in both where
//     it was done to something that the run did not need.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/sim/faults.hpp"

namespace troupe::sim {

/// A fault that had no effect.
struct missed_fault {
  std::string what;  ///< as `--fault` takes it
  double at_s = 0;   ///< when it came, or would have, in virtual seconds
  std::string why;
  std::string hint;

  /// "slow_device:3@99+5 had no effect: ...; ..."
  std::string text() const;
};

class fault_record {
 public:
  explicit fault_record(const std::vector<fault>& planned) : planned_(planned) {}

  /// The time of one of them has come.
  void come(size_t which) { come_.resize(planned_.size()), come_[which] = true, settled_ = false; }
  /// It is done: a line for a person.
  std::string did(const fault& f, const std::string& what, int64_t now_ns);
  void missed(const fault& f, std::string why, std::string hint);
  /// Whoever does faults is done with this one. `nobody`: nothing that it could befall was there,
  /// since ...; empty: its kind says what was not.
  void settle(const fault& f, const std::string& nobody);
  /// The run is over; what has not come never does.
  void over(int64_t now_ns);

  std::vector<std::string> done() && { return std::move(done_); }
  std::vector<missed_fault> without_effect() && { return std::move(missed_); }

 private:
  const std::vector<fault>& planned_;
  std::vector<bool> come_ = {};
  bool settled_ = true;
  std::vector<std::string> done_ = {};
  std::vector<missed_fault> missed_ = {};
};

}  // namespace troupe::sim
