// Host memory that stays where it is, for tests of copies and of kinds of memory.
#pragma once

#include <cstring>

#include <cuda_runtime_api.h>

#include "gpu/cuda/check.hpp"
#include "gpu/cuda/memory.hpp"

namespace troupe::gpu::cuda {

/// Zeroed. Unlike with other host memory, a copy does not wait for notifications before it.
inline result<buffer> allocate_pinned(size_t bytes) {
  if (bytes == 0) return buffer{};
  void* p = nullptr;
  TROUPE_CUDA_TRY(cudaHostAlloc(&p, bytes, cudaHostAllocPortable));
  std::memset(p, 0, bytes);
  return buffer(p, bytes, [](void* q) { forget(cudaFreeHost(q)); });
}

}  // namespace troupe::gpu::cuda
