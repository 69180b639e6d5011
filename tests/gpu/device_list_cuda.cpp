// The devices of test_cuda and test_cuda_device: the emulated GPU, or the first real one.
#include "gpu/cuda.hpp"
#include "gpu/cuda/device.hpp"
#include "tests/gpu/device_list.hpp"

namespace troupe::gpu::testing {

std::vector<listed_device> devices_under_test() {
  std::vector<listed_device> all;
  if (auto count = cuda_device_count(); !count) {
    MESSAGE("SKIPPED: " << count.error().message);
  } else {
    auto opened = cuda::cuda_device::open(0);
    REQUIRE(opened);
    all.push_back({(*opened)->facts().name, std::move(*opened)});
  }
  return all;
}

}  // namespace troupe::gpu::testing
