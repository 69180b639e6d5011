// The plain types of simt.hpp, for those who call kernels and for both of its implementations.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace troupe::gpu::cuda {

/// How many blocks a launch has in each direction; y and z at most 65,535.
struct grid_size {
  unsigned x = 1, y = 1, z = 1;
};

/// Most bytes of shared memory a block may have on sm_90.
constexpr size_t max_shared_bytes = 227 * 1024;

/// bfloat16: the upper half of a float32.
struct bf16 {
  uint16_t bits;
};

/// N values moved by one instruction where they fill 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N) pack {
  T v[N];
};

/// Blocks of `size` that cover `count`.
constexpr unsigned blocks_for(int64_t count, int64_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

}  // namespace troupe::gpu::cuda
