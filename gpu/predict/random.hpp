// Numbers drawn from a seed, the same on every machine and library: SplitMix64, Box-Muller.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "io/base/splitmix.hpp"

namespace troupe::gpu::predict {

class random_numbers {
 public:
  explicit random_numbers(uint64_t seed) : state_(seed) {}

  uint64_t next() noexcept {
    const uint64_t out = splitmix(state_);
    state_ += splitmix_step;
    return out;
  }
  /// Of [0, n), n far below 2^64.
  size_t below(size_t n) noexcept { return static_cast<size_t>(next() % n); }
  /// Of (0, 1].
  double unit() noexcept { return (static_cast<double>(next() >> 11) + 1) * 0x1p-53; }
  /// Of [-1, 1].
  float uniform() noexcept { return static_cast<float>(2 * unit() - 1); }
  /// Mean 0, deviation 1.
  float normal() noexcept {
    const double radius = std::sqrt(-2 * std::log(unit()));
    return static_cast<float>(radius * std::cos(6.283185307179586 * unit()));
  }

 private:
  uint64_t state_;
};

}  // namespace troupe::gpu::predict
