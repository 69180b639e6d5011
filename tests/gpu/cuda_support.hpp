// What the tests of the GPU's launchers share: a stream to launch on.
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include "gpu/cuda.hpp"

namespace troupe::gpu::testing {

/// Whether there is a GPU, emulated or real; says "SKIPPED: " and why where there is none.
inline bool have_gpu() {
  const auto count = cuda_device_count();
  if (!count) MESSAGE("SKIPPED: " << count.error().message);
  return static_cast<bool>(count);
}

/// Runs `launch(stream)`, which shall succeed, and waits.
template <class Launch>
void on_gpu(const Launch& launch) {
  cudaStream_t s = nullptr;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  CHECK(launch(s) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
}

}  // namespace troupe::gpu::testing
