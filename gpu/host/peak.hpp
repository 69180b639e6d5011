// What this machine could do at most: multiply-adds on registers, measured, not looked up.
//
// Why: "% of peak" is only honest against a ceiling taken on the same machine, with the same
// number of threads, in the same hour.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/stopwatch.hpp"

namespace troupe::gpu {

/// One way of multiplying and what it reached.
struct peak_sample {
  std::string instruction;  ///< e.g. "fma avx512", "vdpbf16ps", "tdpbf16ps"
  dtype type = dtype::f32;  ///< of the factors; sums are float32
  int threads = 1;
  double flops_per_second = 0;  ///< median over rounds, all threads together
  double best = 0;              ///< the best round
};

/// Every way this machine can multiply, with `threads` threads at once. Takes about 0.2 s a way.
/// Fails with usage when threads < 1, with unavailable when threads cannot be started.
result<std::vector<peak_sample>> measure_peaks(int threads);

/// The ceiling for a type, floating-point operations a second: the best round of the fastest way.
/// bfloat16 may also be
/// widened and multiplied as float32: its ceiling is never below that of float32.
result<double> measure_peak_flops(dtype type, int threads);

/// The same ceiling again and again, in small samples between other measurements: clocks of
/// processors and the load of shared machines change from second to second.
class peak_meter {
 public:
  /// Fails as measure_peaks does. `clock` must be wall where threads > 1 are to be compared.
  static result<peak_meter> make(dtype type, int threads, time_kind clock);
  peak_meter(peak_meter&&) noexcept;
  peak_meter& operator=(peak_meter&&) noexcept;
  ~peak_meter();

  /// Floating-point operations a second, over some 10 ms.
  double sample();

 private:
  class impl;
  explicit peak_meter(std::unique_ptr<impl> body);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::gpu
