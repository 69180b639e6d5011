// The operations of the real device: its products are cuBLASLt's. Apart, so that an emulated one
// can have its own.
#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/cuda/device.hpp"
#include "gpu/cuda/working_memory.hpp"

namespace troupe::gpu::cuda {

result<std::unique_ptr<gpu::ops>> make_device_ops(cuda_device& owner,
                                                  const cuda_ops_options& given) {
  cuda_ops_options options = given;
  if (!options.slab_bytes) options.slab_bytes = slab_bytes_for(owner.properties().totalGlobalMem);
  TROUPE_TRY(probe, make_cublas_matmul({.workspace_bytes = 0}));  // says what is missing, if so
  return make_cuda_ops([] { return make_cublas_matmul(); }, options);
}

}  // namespace troupe::gpu::cuda
