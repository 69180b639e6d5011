// The operations of the real device: its products are cuBLASLt's. Apart, so that an emulated one
// can have its own.
#include <algorithm>
#include <bit>

#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/cuda/device.hpp"

namespace troupe::gpu::cuda {

namespace {

/// A 32nd of the memory at most, as a power of two, so that devices of a kind have the same.
size_t slab_bytes_for(size_t memory_bytes) {
  constexpr size_t least = size_t{256} << 20, most = size_t{2} << 30;
  return std::clamp(std::bit_floor(memory_bytes / 32), least, most);
}

}  // namespace

result<std::unique_ptr<gpu::ops>> make_device_ops(cuda_device& owner,
                                                  const cuda_ops_options& given) {
  cuda_ops_options options = given;
  options.slab_bytes = slab_bytes_for(owner.properties().totalGlobalMem);
  TROUPE_TRY(probe, make_cublas_matmul({.workspace_bytes = 0}));  // says what is missing, if so
  return make_cuda_ops([] { return make_cublas_matmul(); }, options);
}

}  // namespace troupe::gpu::cuda
