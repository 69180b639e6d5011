// The naive back end's mathematics: the truth that every other back end is compared with.
//
// Plain loops in the order of the formulas, float64 throughout, rounded once when stored; no
// blocking, no vectors, no fusion beyond what the interface asks for. Slow on purpose: it must be
// obvious.
#pragma once

#include <memory>

#include "gpu/device.hpp"
#include "gpu/host/stream.hpp"
#include "gpu/ops.hpp"
#include "tests/gpu/bf16.hpp"

namespace troupe::gpu::reference {

/// Element i of a tensor of activations.
inline double get(const void* data, dtype type, int64_t i) {
  if (type == dtype::bf16) return bf16_to_float(static_cast<const bf16_bits*>(data)[i]);
  return static_cast<const float*>(data)[i];
}

/// Stores element i, rounded once to the type.
inline void put(void* data, dtype type, int64_t i, double value) {
  if (type == dtype::bf16) {
    static_cast<bf16_bits*>(data)[i] = float_to_bf16(static_cast<float>(value));
  } else {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  }
}

/// Where token n of [B,T] is counted from: its document's first token, or the row's.
inline int64_t first_of(const row_documents& d, int64_t n) {
  return d.first != nullptr ? d.first[n] : 0;
}

#define TROUPE_OP(name) void name(const name##_args& a);
TROUPE_DEVICE_OPS(TROUPE_OP)
#undef TROUPE_OP

}  // namespace troupe::gpu::reference

namespace troupe::gpu {

/// The naive back end: float64 accumulation, one thread.
std::unique_ptr<device> make_reference_device();

}  // namespace troupe::gpu
