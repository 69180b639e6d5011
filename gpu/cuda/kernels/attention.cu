// Causal attention with groups of heads and sliding windows, forward and backward (gpu/ops.hpp).
//
// Three families of kernels stand behind the two launches:
//   groups        bf16, head widths that are multiples of 8 up to 128 (best at 64 and 128), every
//                 pointer aligned to 16 bytes, on Hopper: attention_group_forward.cu,
//                 attention_group_backward.cu.
//   tiles         the same on every other GPU: attention_forward.cu, attention_backward.cu.
//   plain         everything else, and all of f32: one warp per row, simple and right, for checking
//                 and for odd models: attention_plain.cu. None takes a head wider than 4096, or
//                 heads that are not in equal groups.
//
// Each family has its kernels twice, for rows of one document and for rows of several (masks,
// attention_shape.hpp), and chooses when it launches.
//
// With V = T (T + 1) / 2 visible pairs of query and key (fewer with a window, or with documents: of
// one of L tokens L (L + 1) / 2, and what its first and last tile hold of others beside):
//   forward   4 B H V D FLOPs (two products);
//   backward  10 B H V D FLOPs as benchmarks count them (five products); 14 are executed, since two
//             kernels compute the scores again, which is what being deterministic costs here.
// Bytes: every tensor of the arguments once, as long as the keys and values of the heads that are
// worked on together fit the L2 cache; at any useful length the FLOPs are the floor.
//
// Invariants
//   ATT-1  Deterministic (DEV-5): no atomics; sums run over keys, queries and the heads of a group
//     in a fixed order, whatever the timing.
//   ATT-2  Nothing beyond the tensors and the documents' arrays is read, and nothing that is not a
//     result is written.
#include "gpu/cuda/kernels/launch.hpp"

#include <initializer_list>

#include "gpu/cuda/kernels/attention_parts.hpp"

namespace troupe::gpu::cuda {
namespace {

/// Whether the current device multiplies by groups of warps: wgmma is Hopper's alone.
bool has_group_products() {
#if defined(TROUPE_GROUP_PRODUCTS)
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major == 9;
#else
  return false;
#endif
}

/// Whether the tensor cores' kernels take it: they move 16 bytes at a time.
bool on_tensor_cores(const attention_shape& a, dtype type,
                     std::initializer_list<const void*> tensors) {
  if (type != dtype::bf16 || a.width % 8 != 0 || a.width > 128) return false;
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
}

}  // namespace

cudaError_t launch_attention_forward(cudaStream_t s, const attention_forward_args& a, void*) {
  attention_shape shape;
  if (!shape_of(a, shape)) return cudaErrorInvalidValue;
  if (!on_tensor_cores(shape, a.type, {a.qkv, a.out})) return plain_attention_forward(s, shape, a);
  return has_group_products() ? group_attention_forward(s, shape, a)
                              : tiled_attention_forward(s, shape, a);
}

size_t scratch_bytes(const attention_backward_args& a) {
  return static_cast<size_t>(a.batch * a.heads * a.seq) * sizeof(float);
}

cudaError_t launch_attention_backward(cudaStream_t s, const attention_backward_args& a,
                                      void* scratch) {
  attention_shape shape;
  if (!shape_of(a, shape)) return cudaErrorInvalidValue;
  auto* delta = static_cast<float*>(scratch);
  if (!on_tensor_cores(shape, a.type, {a.qkv, a.out, a.dout, a.dqkv}))
    return plain_attention_backward(s, shape, a, delta);
  return has_group_products() ? group_attention_backward(s, shape, a, delta)
                              : tiled_attention_backward(s, shape, a, delta);
}

}  // namespace troupe::gpu::cuda
