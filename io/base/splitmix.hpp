// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014):
// numbers that look drawn and are computed, the same on every machine.
#pragma once

#include <cstdint>

namespace troupe {

/// By how much the generator's state grows with each number.
inline constexpr uint64_t splitmix_step = 0x9e3779b97f4a7c15;

/// Mixes the bits of a word so that similar inputs give unlike outputs; 0 stays 0.
constexpr uint64_t mix_bits(uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// The generator's next number after the state `x`.
constexpr uint64_t splitmix(uint64_t x) noexcept {
  return mix_bits(x + splitmix_step);
}

}  // namespace troupe
