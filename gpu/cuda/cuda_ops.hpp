// The mathematics of a CUDA device.
#pragma once

#include <memory>

#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

class cuda_device;

/// The operations of `owner`, whose streams are all cuda_stream. Fails with unavailable where a
/// library they need is missing.
result<std::unique_ptr<gpu::ops>> make_cuda_ops(cuda_device& owner);

}  // namespace troupe::gpu::cuda
