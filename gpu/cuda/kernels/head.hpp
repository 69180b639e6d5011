// The head's loss on a slab of logits: softmax, cross-entropy and its gradient in one kernel.
//
// Where the logits come from: products x w^T write a slab of R rows with a row stride of
// slab_stride(V) elements, so that rows are aligned although V may be odd; this kernel reads them,
// writes the gradient, and more products make dx and dw of it.
//
// The logits' type. Give f32 logits (the product accumulates in f32 anyhow) and take a gradient in
// the compute dtype. bfloat16 logits would save 4 of the 14 bytes a logit costs the memory (5 % of
// the head's time at C 2048), but logits are not small: GPT-2's lie between -30 and -130, where
// neighbouring bfloat16 numbers are 0.25 to 1 apart, and softmax makes an absolute error of a logit
// a relative error of a probability. The gradient is a probability: 8 bits of mantissa do there.
// bfloat16 logits work as well, for whoever wants the bytes.
//
// In place: a slab needs no second buffer. in_place_gradient() says where in the f32 slab the
// bfloat16 gradient goes: the upper half of each row, read from the end backwards, so that a group
// of logits is overwritten only after it was read.
//
// Floor per logit: 4 bytes read (2 if bfloat16), 2 written (4 if f32); about 4 FLOPs and 2 powers.
// Rows of up to 58,048 f32 or 116,096 bfloat16 logits are read once; of longer ones the rest is
// read twice, the second time backwards, mostly from the level-2 cache.
// One block per row: every row's result depends on that row alone, in a fixed order.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/cuda/working_memory.hpp"
#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

struct softmax_loss_args {
  int64_t rows, vocab;
  dtype logits_type;  ///< f32, or bf16 (the gradient is then bf16 too)
  const void* logits;
  int64_t logits_stride;   ///< elements between rows: at least V, a multiple of 8
  const int32_t* targets;  ///< [R], below V; negative: ignored, its row of the gradient is zero
  double* losses;          ///< [R] overwritten: lse - logit of the target; 0 where ignored
  float scale = 1.0f;      ///< multiplies the gradient
  dtype gradient_type = dtype::bf16;
  /// [R,V] overwritten: scale * (softmax - onehot). Columns from V to the next multiple of 8 are
  /// zeroed. Null: losses only. Apart from the logits, or where in_place_gradient() says.
  void* gradient = nullptr;
  int64_t gradient_stride = 0;  ///< at least V, a multiple of 8
};

/// Where the gradient of `type` lies if it is to overwrite the slab of logits.
struct slab_gradient {
  void* data;
  int64_t stride;  ///< elements between rows
};
slab_gradient in_place_gradient(void* logits, dtype logits_type, int64_t logits_stride,
                                dtype gradient_type);

/// Fails with cudaErrorInvalidValue on strides or addresses that are not aligned to 16 bytes (8 for
/// a bf16 gradient of f32 logits) and on bf16 logits with an f32 gradient.
cudaError_t launch_softmax_loss(cudaStream_t s, const softmax_loss_args& a);

/// *loss_sum += losses[0] + losses[1] + ..., in an order that depends on count alone. Once per call
/// of head_loss, over the losses of all its slabs. Bytes: 8 * count.
cudaError_t launch_sum_losses(cudaStream_t s, const double* losses, int64_t count,
                              double* loss_sum);

}  // namespace troupe::gpu::cuda
