// What a test executable holds against the oracle: a device, and how much of it there is time for.
#pragma once

#include <cstddef>
#include <memory>

#include "gpu/device.hpp"

namespace troupe::gpu::testing {

struct oracle_ground {
  std::unique_ptr<device> owner;  ///< null: nothing to test on; the reason was said
  size_t steps = 20;              ///< of the oracle's 20
  bool every_variant = true;      ///< else the main one of each model
};

/// A fresh one, by the executable (oracle_ground_*.cpp).
oracle_ground ground_for_oracle();

}  // namespace troupe::gpu::testing
