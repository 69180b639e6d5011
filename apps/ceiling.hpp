// The ceiling of this machine: the most multiply-adds a second that its processors were ever seen
// to do, which "% of peak" is a share of.
//
// Why: what a machine can do does not change with what else it does in the first seconds of a run;
// so the best sample counts, of this run or of another one of this program on this machine.
//
// Invariants
//   CEIL-1  flops() never falls: a sample can only raise it, and what raises it is kept.
//   CEIL-2  A share is never above 1.
#pragma once

#include "gpu/host/peak.hpp"
#include "io/machine/facts.hpp"

namespace troupe::apps {

/// `flops` of a ceiling, in [0, 1] (CEIL-2).
double share_of_peak(double flops, double ceiling);

class ceiling {
 public:
  /// Measures as gpu::peak_meter does and takes what `store` kept if that is more. Fails as the
  /// meter does.
  static result<ceiling> make(gpu::dtype type, int threads, io::fact_store store = {});

  /// Floating-point operations a second (CEIL-1).
  double flops() const noexcept { return flops_; }
  /// Takes one more sample, of some 10 ms of each thread's processor time.
  double sample();

 private:
  ceiling(gpu::peak_meter meter, std::string fact, io::fact_store store);
  void saw(double flops);

  gpu::peak_meter meter_;
  std::string fact_;  ///< the name it is kept under
  io::fact_store store_;
  double flops_ = 0;
};

}  // namespace troupe::apps
