// The operations of CUDA devices; see cuda_ops.hpp.
#include "gpu/cuda/cuda_ops.hpp"

namespace troupe::gpu::cuda {

result<std::unique_ptr<gpu::ops>> make_cuda_ops(cuda_device&) {
  return error(errc::unavailable, "this build has no operations for CUDA devices",
               "train on the host");
}

}  // namespace troupe::gpu::cuda
