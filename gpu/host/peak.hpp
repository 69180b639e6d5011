// What this machine could do at most: multiply-adds on registers, measured, not looked up.
//
// Why: "% of peak" is only honest against a ceiling taken on the same machine with the same number
// of threads. The ceiling belongs to the machine: each thread is timed by its own processor time,
// so that what others did meanwhile lowers nothing, and is told instead.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/device.hpp"

namespace troupe::gpu {

/// One way of multiplying and what it reached.
struct peak_sample {
  std::string instruction;  ///< e.g. "fma avx512", "vdpbf16ps", "tdpbf16ps"
  dtype type = dtype::f32;  ///< of the factors; sums are float32
  int threads = 1;
  double flops_per_second = 0;  ///< median over rounds, all threads together
  double best = 0;              ///< the best round
  /// The share of the wall's time in which these threads were ready and others ran, in [0, 1].
  double others = 0;

  /// Whether the machine was too busy, or its clocks too restless, for the numbers to be its best.
  bool disturbed() const { return others > 0.05 || flops_per_second < 0.9 * best; }
};

/// The instruction sets that kernels are compiled for and this processor has, worst first, none
/// better than TROUPE_ISA: "generic", "avx2" ...
std::vector<std::string> instruction_sets();

/// Every way this machine can multiply, with `threads` threads at once. Takes about 0.2 s a way.
/// Fails with usage when threads < 1, with unavailable when threads cannot be started.
result<std::vector<peak_sample>> measure_peaks(int threads);

/// The ceiling for a type, the fastest way there is, and small samples of it between other work:
/// clocks of processors change from second to second. bfloat16 may also be widened and multiplied
/// as float32: its ceiling is never below that of float32.
class peak_meter {
 public:
  /// Measures all ways once; fails as measure_peaks does.
  static result<peak_meter> make(dtype type, int threads);
  peak_meter(peak_meter&&) noexcept;
  peak_meter& operator=(peak_meter&&) noexcept;
  ~peak_meter();

  /// What make() found of the fastest way.
  const peak_sample& first() const;
  /// Floating-point operations a second, over some 10 ms of each thread's processor time.
  double sample();

 private:
  class impl;
  explicit peak_meter(std::unique_ptr<impl> body);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::gpu
