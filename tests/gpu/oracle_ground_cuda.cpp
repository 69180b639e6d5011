// The oracle against a GPU: all of it on a real one, the first steps of each model on the emulated.
#include "tests/gpu/cuda_any.hpp"
#include "tests/gpu/oracle_ground.hpp"

namespace troupe::gpu::testing {

oracle_ground ground_for_oracle() {
#if defined(TROUPE_CUDA_EMULATED)
  return {any_gpu(), 4, false};
#else
  return {any_gpu(), 20, true};
#endif
}

}  // namespace troupe::gpu::testing
