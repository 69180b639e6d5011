// The watts of all simulated devices over virtual time, as a meter of the whole cluster would show
// them: the mean of each part of it.
//
// Why: how far a job's watts fall when it saves is read from a trace (`troupe power swings`), and a
// simulated job has none but what its devices are given to do.
//
// Invariants
//   WTR-1  The energy that the means add up to is that of the operations and of idle devices; what
//     is taken back counts for nothing.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::sim {

class watts_trace {
 public:
  /// Of parts of `each_ns`; 0: nothing is kept.
  explicit watts_trace(int64_t each_ns = 0) : each_ns_(each_ns) {}

  /// A device draws so much above idle from one time to another; below 0: it does not any more.
  void add(int64_t from_ns, int64_t until_ns, double watts);

  /// The means of the parts that are over by `until_ns`, beside what all draw idle.
  std::vector<double> means(double idle_w, int64_t until_ns) const;

 private:
  int64_t each_ns_;
  std::vector<double> above_idle_;  ///< watts times nanoseconds, by part
};

}  // namespace troupe::sim
