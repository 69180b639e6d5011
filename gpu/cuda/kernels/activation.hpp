// GELU (both forms) and SwiGLU, forward and backward.
//
// A thread computes 16 values of y (8 of a backward pass, which reads twice as much for each).
// Every element has one thread: deterministic. exp is the hardware's exp2, good to 2 ulp; erf the
// precise one.
// Floor, with s = size_of(type), N tokens, F width:
//   gelu    forward bytes 2 N F s; backward 3 N F s
//   swiglu  forward bytes 3 N F s; backward 5 N F s
//   FLOPs   about 12 per element forward, 25 backward (erf: 40)
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

cudaError_t launch_activation_forward(cudaStream_t s, const activation_forward_args& a);
cudaError_t launch_activation_backward(cudaStream_t s, const activation_backward_args& a);

}  // namespace troupe::gpu::cuda
