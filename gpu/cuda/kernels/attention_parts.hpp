// The three families of attention's kernels, as attention.cu chooses between them. Each takes rows
// of one document and, where the arguments have documents, of several.
#pragma once

#include "gpu/cuda/kernels/attention_shape.hpp"

namespace troupe::gpu::cuda {

// -- on tensor cores: bf16, width a multiple of 8 up to 128, all tensors aligned to 16 bytes ----

cudaError_t tiled_attention_forward(cudaStream_t s, const attention_shape& a,
                                    const attention_forward_args& args);
/// delta[B,H,T]: written, then read.
cudaError_t tiled_attention_backward(cudaStream_t s, const attention_shape& a,
                                     const attention_backward_args& args, float* delta);

// -- on tensor cores by groups of four warps: the same, where has_group_products() ---------------

cudaError_t group_attention_forward(cudaStream_t s, const attention_shape& a,
                                    const attention_forward_args& args);
/// delta[B,H,T]: written, then read.
cudaError_t group_attention_backward(cudaStream_t s, const attention_shape& a,
                                     const attention_backward_args& args, float* delta);

// -- plain: any shape -----------------------------------------------------------------------------

cudaError_t plain_attention_forward(cudaStream_t s, const attention_shape& a,
                                    const attention_forward_args& args);
cudaError_t plain_attention_backward(cudaStream_t s, const attention_shape& a,
                                     const attention_backward_args& args, float* delta);

}  // namespace troupe::gpu::cuda
