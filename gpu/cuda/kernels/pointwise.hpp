// Operations on each element by itself: casts, sums.
//
// Floor: bytes of memory read and written once; no FLOPs worth counting. Deterministic: every
// element has one thread.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

/// to[i] = from[i]. Bytes: count * (size_of(from) + size_of(to)).
cudaError_t launch_cast(cudaStream_t s, void* destination, dtype to, const void* source, dtype from,
                        int64_t count);

/// As ops::round_by_chance. Bytes: 6 * count.
cudaError_t launch_round_by_chance(cudaStream_t s, const rounding_args& a);

/// y[i] += x[i]. Bytes: 3 * count * size_of(type).
cudaError_t launch_add(cudaStream_t s, void* y, const void* x, dtype type, int64_t count);

}  // namespace troupe::gpu::cuda
