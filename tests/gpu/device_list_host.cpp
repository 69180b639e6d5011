// The devices of test_gpu_ops: the host's with two threads, and the reference.
#include "tests/gpu/device_list.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

namespace troupe::gpu::testing {

std::vector<listed_device> devices_under_test() {
  std::vector<listed_device> all;
  all.push_back({"host", make_host_device(2)});
  all.push_back({"reference", make_reference_device()});
  return all;
}

}  // namespace troupe::gpu::testing
