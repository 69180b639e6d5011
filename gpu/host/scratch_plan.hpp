// How much working memory the operations of a stage take of the host's memory, beside what
// plan_stage counts: for budgets that are kept (swap.host_bytes).
//
// Pure but for the kernels of this processor, whose needs it asks for: the largest that any
// operation of a training step asks of its stream's scratch_memory, and what matrix products of
// oneDNN keep for each thread and shape.
#pragma once

#include <cstdint>

#include "gpu/device.hpp"
#include "io/base/model_config.hpp"

namespace troupe::gpu::host {

/// Whose scratch is planned.
struct scratch_shape {
  int64_t batch = 1, seq = 1;  ///< of a micro-batch
  dtype compute = dtype::f32;
  bool has_head = true;
  int threads = 1;  ///< of the compute stream
};

/// Bytes, by the kernels that this process runs.
uint64_t scratch_bytes(const model_config& model, const scratch_shape& shape);

/// Of a stream that makes norms of gradients and nothing else.
uint64_t norm_scratch_bytes(const model_config& model);

}  // namespace troupe::gpu::host
