// Causal attention with groups of heads and sliding windows, forward and backward (gpu/ops.hpp).
//
// Two families of kernels stand behind the two launches:
//   tensor cores  bf16, head widths that are multiples of 8 up to 128 (best at 64 and 128), every
//                 pointer aligned to 16 bytes: attention_forward.cu, attention_backward.cu.
//   plain         everything else, and all of f32: one warp per row, simple and right, for checking
//                 and for odd models: attention_plain.cu.
//
// With V = T (T + 1) / 2 visible pairs of query and key (fewer with a window):
//   forward   4 B H V D FLOPs (two products);
//   backward  10 B H V D FLOPs as benchmarks count them (five products); 14 are executed, since two
//             kernels compute the scores again, which is what being deterministic costs here.
// Bytes: every tensor of the arguments once, as long as the keys and values of the heads that are
// worked on together fit the L2 cache; at any useful length the FLOPs are the floor.
//
// Invariants
//   ATT-1  Deterministic (DEV-5): no atomics; sums run over keys, queries and the heads of a group
//     in a fixed order, whatever the timing.
//   ATT-2  Nothing beyond the tensors is read, and nothing that is not a result is written.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

/// out and lse from qkv. lse is that of the scaled scores, natural logarithm.
/// cudaErrorInvalidValue: shapes no kernel takes (head width over 4096, heads not in equal groups).
cudaError_t launch_attention_forward(cudaStream_t s, const attention_forward_args& a);

/// Bytes of device memory that launch_attention_backward needs at `scratch` until it is done; 4 B H
/// T, for one number per query and head.
size_t attention_backward_scratch_bytes(const attention_backward_args& a);

/// dqkv from qkv, out, lse and dout; dqkv is none of them. `scratch`: aligned to 4 bytes, contents
/// do not matter. Errors as forward's.
cudaError_t launch_attention_backward(cudaStream_t s, const attention_backward_args& a,
                                      void* scratch);

}  // namespace troupe::gpu::cuda
