// Rotary embedding, in place on the query and key heads of packed rows.
//
// A thread turns a piece of a head and its partner half a head away, in two heads of the same
// token: sine and cosine are read once for both. Every pair has one thread: deterministic.
// Floor: bytes 2 N (H + K) D size_of(type) + 4 T D; FLOPs 3 N (H + K) D.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

cudaError_t launch_rope(cudaStream_t s, const rope_args& a);

}  // namespace troupe::gpu::cuda
