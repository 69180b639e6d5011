// The launches of the operations that are kernels, as the list of operations has them (OPS-5).
//
// Each kernel's file says how it works and its floor: the bytes and FLOPs the mathematics needs.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

// launch_rope(stream, args, scratch) enqueues ops::rope, and so on. Where scratch_bytes() is for an
// operation, it needs that much memory of the device, aligned to 16 bytes, whose contents do not
// matter: calls on one stream may share it, streams may not. cudaErrorInvalidValue: a shape that no
// kernel takes.
#define TROUPE_OP(name) \
  cudaError_t launch_##name(cudaStream_t s, const name##_args& a, void* scratch = nullptr);
TROUPE_KERNEL_OPS(TROUPE_OP)
#undef TROUPE_OP

/// The widest row of norms.
constexpr int64_t max_norm_width = 32768;

/// 16 N + 4 * 2^bits * N / 512 for the sort, N C / 8 for partial sums.
size_t scratch_bytes(const embedding_backward_args& a);
size_t scratch_bytes(const norm_backward_args& a);
size_t scratch_bytes(const head_norm_backward_args& a);
/// 4 B H T: one number per query and head.
size_t scratch_bytes(const attention_backward_args& a);
/// 4 (D + 2) for each query, head and part of the keys, however many rows of them there are.
size_t scratch_bytes(const attention_cached_args& a);
/// Of an update, and of a norm of gradients, whatever the spans.
constexpr size_t optimizer_scratch_bytes = 40 * 1024;
constexpr size_t scratch_bytes(const optimizer_step_args&) {
  return optimizer_scratch_bytes;
}
constexpr size_t scratch_bytes(const norm_squared_args&) {
  return optimizer_scratch_bytes;
}

}  // namespace troupe::gpu::cuda
