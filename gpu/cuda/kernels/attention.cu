// Which of attention's kernels take a call.
#include "gpu/cuda/kernels/attention.hpp"

#include <initializer_list>

#include "gpu/cuda/kernels/attention_parts.hpp"

namespace troupe::gpu::cuda {
namespace {

/// Whether the tensor cores' kernels take it: they move 16 bytes at a time.
bool tiled(const attention_shape& a, dtype type, std::initializer_list<const void*> tensors) {
  if (type != dtype::bf16 || a.width % 8 != 0 || a.width > 128) return false;
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
}

}  // namespace

cudaError_t launch_attention_forward(cudaStream_t s, const attention_forward_args& a) {
  attention_shape shape;
  if (!shape_of(a, shape)) return cudaErrorInvalidValue;
  return tiled(shape, a.type, {a.qkv, a.out}) ? tiled_attention_forward(s, shape, a)
                                              : plain_attention_forward(s, shape, a);
}

size_t attention_backward_scratch_bytes(const attention_backward_args& a) {
  return static_cast<size_t>(a.batch * a.heads * a.seq) * sizeof(float);
}

cudaError_t launch_attention_backward(cudaStream_t s, const attention_backward_args& a,
                                      void* scratch) {
  attention_shape shape;
  if (!shape_of(a, shape)) return cudaErrorInvalidValue;
  auto* delta = static_cast<float*>(scratch);
  return tiled(shape, a.type, {a.qkv, a.out, a.dout, a.dqkv})
             ? tiled_attention_backward(s, shape, a, delta)
             : plain_attention_backward(s, shape, a, delta);
}

}  // namespace troupe::gpu::cuda
