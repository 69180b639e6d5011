// The CUDA back end, as the rest of the program sees it: in every build, with or without a toolkit.
//
// Why a head of its own: nothing that chooses a device needs CUDA's headers. A build without the
// toolkit answers with `unavailable` and a hint (cuda_absent.cpp), and so does one with it on a
// machine without a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device.hpp"

namespace troupe::gpu {

/// The GPUs this process may use. Fails with unavailable where there is no driver, no GPU, or no
/// CUDA in this build; the hint says what to do about it.
result<int> cuda_device_count();

/// What CUDA says of a GPU without opening it.
struct cuda_facts {
  int ordinal = 0;              ///< in [0, cuda_device_count())
  std::string name;             ///< e.g. "NVIDIA H200"
  std::string uuid;             ///< as the driver writes it: "GPU-1f3c..."
  std::string instruction_set;  ///< e.g. "sm_90"
  int multiprocessors = 0;
  uint64_t memory_bytes = 0;
};

/// All of them. Fails with unavailable like cuda_device_count().
result<std::vector<cuda_facts>> list_cuda_devices();

/// The version of the CUDA toolkit this build was made with, e.g. "13.0"; empty without one.
std::string cuda_toolkit_version();

/// How a GPU's operations are put together.
struct cuda_options {
  /// Bias gradients come out of the product of the weight gradient (cuBLASLt's BGRADB) instead of a
  /// pass of their own. Off: what that costs the product differs from GPU to GPU (docs/gpu.md).
  bool fused_bias_gradients = false;
};

/// The GPU with that number, in [0, cuda_device_count()). Fails with unavailable.
result<std::unique_ptr<device>> make_cuda_device(int ordinal, const cuda_options& options = {});

/// The numbers of the GPUs that this process has opened so far: it has a context on each, whatever
/// became of the device. Those below 64.
std::vector<int> opened_cuda_devices();

/// How often an activation or a bias gradient that belongs to a product was enqueued in this
/// process: as a part of the product, and in a pass of its own because the library has no algorithm
/// for both, or float32 is multiplied. What a CUDA graph repeats is not counted again.
struct epilogue_counts {
  int64_t fused = 0, separate = 0;
};
epilogue_counts cuda_epilogues() noexcept;

/// The first failure by which this process lost a GPU for good: its context is of no more use, and
/// only another process can open one. None while there was none.
std::optional<error> lost_cuda_device();

}  // namespace troupe::gpu
