// Chance in a simulation: a seeded generator whose numbers are the same on every machine.
//
// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
// The standard library's distributions differ between implementations, so the few that are needed
// are here.
#pragma once

#include <cstdint>

namespace troupe::sim {

/// Mixes the bits of a word so that similar inputs give unlike outputs.
inline uint64_t mix(uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class rng {
 public:
  explicit rng(uint64_t seed) noexcept : state_(seed) {}

  uint64_t next() noexcept { return mix(state_ += 0x9e3779b97f4a7c15u); }

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
