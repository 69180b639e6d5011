// The CUDA back end, as the rest of the program sees it: in every build, with or without a toolkit.
//
// Why a head of its own: nothing that chooses a device needs CUDA's headers. A build without the
// toolkit answers with `unavailable` and a hint (cuda_absent.cpp), and so does one with it on a
// machine without a GPU.
#pragma once

#include <memory>

#include "gpu/device.hpp"

namespace troupe::gpu {

/// The GPUs this process may use. Fails with unavailable where there is no driver, no GPU, or no
/// CUDA in this build; the hint says what to do about it.
result<int> cuda_device_count();

/// The GPU with that number, in [0, cuda_device_count()). Fails with unavailable.
result<std::unique_ptr<device>> make_cuda_device(int ordinal);

}  // namespace troupe::gpu
