// Groups between GPUs. NCCL's part comes with gpu/cuda/nccl_group.
#include "gpu/cuda.hpp"

namespace troupe::gpu {

result<std::unique_ptr<pending_group>> open_cuda_group(device&, const group_options&) {
  return error{errc::unavailable, "NCCL is not in this build"};
}

}  // namespace troupe::gpu
