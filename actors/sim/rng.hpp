// Chance in a simulation: a seeded generator whose numbers are the same on every machine.
//
// The generator is splitmix64 (io/base/splitmix.hpp). The standard library's distributions differ
// between implementations, so the few that are needed are here.
#pragma once

#include <cstdint>

#include "io/base/splitmix.hpp"

namespace troupe::sim {

/// Mixes the bits of a word so that similar inputs give unlike outputs.
constexpr uint64_t mix(uint64_t x) noexcept {
  return mix_bits(x);
}

class rng {
 public:
  explicit rng(uint64_t seed) noexcept : state_(seed) {}

  uint64_t next() noexcept { return mix(state_ += splitmix_step); }

  /// In [0, n); 0 for n = 0. The bias for large n is below 2^-32.
  uint64_t below(uint64_t n) noexcept {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }

  /// In [low, high].
  int64_t between(int64_t low, int64_t high) noexcept {
    return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low) + 1));
  }

  /// In [0, 1).
  double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

  bool chance(double probability) noexcept { return unit() < probability; }

  /// A generator of its own for a part of the simulation, so that more draws in one part change
  /// nothing in another.
  rng split(uint64_t part) noexcept { return rng(mix(state_ ^ mix(part + 1))); }

 private:
  uint64_t state_;
};

}  // namespace troupe::sim
