// By how much longer the operations of simulated machines take for a while: beside what ails a
// single device (environment.hpp: device_fault).
//
// Pure.
//
// Invariants
//   PMD-1  Which steps are spikes follows from the fault, the node and the step: all of a step's
//     operations on a node are, or none.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/sim/faults.hpp"
#include "messages/operations.hpp"

namespace troupe::sim {

/// One step in so many is a spike, which takes so many times as long.
inline constexpr uint64_t steps_a_spike = 100;
inline constexpr double spike_times = 1.5;

/// Machines are slower for a while.
struct slowdown {
  fault_kind kind{};  ///< slow_section, slow_all, decay or spikes
  int node = 0;       ///< from 1; 0: all
  train::pipeline_op section = train::pipeline_op::count;  ///< count: whatever it does
  double times = 1;  ///< as long; of `decay` at its end, of `spikes` of a spike
  int64_t from_ns = 0, until_ns = 0;
  uint64_t random = 0;  ///< chooses the spikes
};

/// Sections of a rank's step that simulated operations have.
inline constexpr train::pipeline_op slow_sections[] = {
    train::pipeline_op::forward, train::pipeline_op::backward, train::pipeline_op::update};

/// What a fault of this kind, which names `section` or leaves it to chance, makes of a node.
slowdown slowdown_of(const fault& f, int node, train::pipeline_op section, int64_t now_ns);

class pace_model {
 public:
  void add(const slowdown& s) { all_.push_back(s); }
  /// How many times as long an operation takes that begins now. `section` count: one of no step.
  double times(int node, train::pipeline_op section, uint64_t step, int64_t now_ns) const;

 private:
  std::vector<slowdown> all_;
};

/// How many times as long one of them makes what is of its node and section.
double times_of(const slowdown& s, int node, uint64_t step, int64_t now_ns);

}  // namespace troupe::sim
