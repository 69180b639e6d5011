// The oracle against the host.
#include "tests/gpu/oracle_ground.hpp"

namespace troupe::gpu::testing {

oracle_ground ground_for_oracle() {
  return {make_host_device(2), 20, true};
}

}  // namespace troupe::gpu::testing
