// bfloat16 as the upper half of a float32: scalar conversions.
//
// Why: kernels convert in vectors of their own; tests and the reference need the scalar form, and
// all must round the same way (to nearest even; NaN stays NaN).
#pragma once

#include <cstdint>
#include <cstring>

#include "gpu/host/bf16_bits.hpp"

namespace troupe::gpu {

/// Exact.
inline float bf16_to_float(bf16_bits bits) noexcept {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

/// Round to nearest even; NaN becomes a quiet NaN.
inline bf16_bits float_to_bf16(float value) noexcept {
  uint32_t wide;
  std::memcpy(&wide, &value, sizeof wide);
  if ((wide & 0x7fffffffu) > 0x7f800000u) return static_cast<bf16_bits>((wide >> 16) | 0x40u);
  wide += 0x7fffu + ((wide >> 16) & 1u);
  return static_cast<bf16_bits>(wide >> 16);
}

}  // namespace troupe::gpu
