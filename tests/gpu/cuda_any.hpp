// The GPU that a test of the CUDA back end runs on: the emulated one, or a real one.
//
// The same tests are linked twice: against the emulated runtime (there is always one "GPU"), and
// against the real one, where they skip without a GPU.
#pragma once

#include <doctest/doctest.h>

#include <memory>

#include "gpu/cuda.hpp"

namespace troupe::gpu::testing {

/// GPU 0, or null after having said that the test is skipped.
inline std::unique_ptr<device> any_gpu() {
  auto made = make_cuda_device(0);
  if (made) return std::move(*made);
#if defined(TROUPE_CUDA_EMULATED)
  FAIL_CHECK(render(made.error()));
#else
  MESSAGE("SKIPPED: " << made.error().message);
#endif
  return nullptr;
}

}  // namespace troupe::gpu::testing
