// Layer norm and RMS norm with the residual sum before them; forward and backward.
//
// A row of up to 1,024 values (768 backward) belongs to a warp, a wider one to a block; it is read
// once and kept in registers: the variance is of the differences from the mean (two passes over
// registers). Backward, a block walks over many rows, copies them to shared memory two rows ahead
// of the one it works on, and keeps its columns' share of dweight and dbias in registers; the
// blocks' shares are then added by a second kernel in the order of the blocks, whose number depends
// on the shape alone: the same bits every time (OPS-2).
//
// Floor, with s = size_of(type), N tokens, C width:
//   forward   bytes N C s (2 + residual + sum_out) + 8 N; FLOPs about 8 N C
//   backward  bytes N C s (3 + dresidual) + 8 N (+ 16 C per block, in the cache); FLOPs 14 N C
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

/// The widest row; wider ones are answered with cudaErrorInvalidValue.
constexpr int64_t max_norm_width = 32768;

cudaError_t launch_norm_forward(cudaStream_t s, const norm_forward_args& a);

/// Bytes of working memory that the backward pass needs.
size_t norm_backward_scratch(const norm_backward_args& a);
cudaError_t launch_norm_backward(cudaStream_t s, const norm_backward_args& a, void* scratch);

}  // namespace troupe::gpu::cuda
