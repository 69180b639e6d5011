// The update of a chunk on the device: AdamW or LAMB, the gradient's norm, the clip factor.
//
// All of it waits for memory alone. A thread takes four neighbouring elements of every array with
// one access each, several of them in flight; spans that start unaligned have their ends done
// element by element.
//
// Spans travel in the launch's parameters, 64 at a time: there is no table on the device to keep up
// to date, and a captured graph holds all it needs. (The learning rate and the step are parameters
// as well: a graph with an optimizer in it must be updated for each step.)
//
// Bytes per element, P the size of the compute copy (2; 0 where the copy is the master):
//   AdamW 32 + P, one pass.  LAMB 24 + 20 + P, as its norms need one.  norm_squared 4.
// FLOPs per element: AdamW 14, LAMB 30, norm_squared 2.
//
// Invariants
//   DOP-1  Sums are double, over tiles whose borders depend on the spans alone, added in order: the
//     same bits every time and on every GPU (OPS-2). No atomics.
//   DOP-2  Scratch is used between the launches of one call only; calls on one stream may share it,
//     streams may not.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

/// What optimizer_step and norm_squared need of working memory on the device, whatever the spans;
/// aligned to 16 bytes.
constexpr size_t optimizer_scratch_bytes = 40 * 1024;

/// ops::optimizer_step. `a.spans` are read before it returns. AdamW is one launch per 64 spans and
/// needs no scratch; LAMB is three, two in each of its phases.
cudaError_t launch_optimizer_step(cudaStream_t s, const optimizer_args& a, void* scratch);

/// ops::norm_squared; per_span may be null. Two launches per 64 spans.
cudaError_t launch_norm_squared(cudaStream_t s, const float* grad, const parameter_span* spans,
                                int64_t span_count, double* sum, double* per_span, void* scratch);

/// ops::clip_scale.
cudaError_t launch_clip_scale(cudaStream_t s, const double* norm_squared, float max_norm,
                              float* scale);

}  // namespace troupe::gpu::cuda
