// Devices and groups by name: the one place that knows every back end.
//
// Why: a rank is told "host" or "cuda:1" by the coordinator; the engine, the benchmarks and the
// tools open what they are told and see gpu::device from then on.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/collective/communicator.hpp"
#include "gpu/device.hpp"
#include "gpu/model/stage_shape.hpp"
#include "io/base/memory_account.hpp"

namespace troupe::gpu {

/// Opens "host" (with `threads` threads for compute streams, 0: all cores), "cuda" or "cuda:N".
/// Errors: usage for another name, naming what there is; unavailable where the device is not there.
result<std::unique_ptr<device>> open_device(std::string_view name, int threads = 0);

/// The names of the accelerators this process may use, one each; empty where there is none.
std::vector<std::string> accelerators();

/// By what the driver knows the GPU of that name; empty: it is none, or not known.
std::string device_uuid(std::string_view name);

/// Memory of the GPU of that name; 0: it is none, or not known.
uint64_t device_memory_bytes(std::string_view name);

/// On which what is allocated on this device is booked: its own, or the process's.
io::memory_account& memory_account_of(std::string_view name);

/// Memory of the host that operations of a training step take on this device beside what plan_stage
/// counts, bytes (gpu/host/scratch_plan.hpp); of `threads` threads.
uint64_t scratch_bytes(std::string_view device, const model_config& model, const stage_shape& shape,
                       int threads);

/// The same of the stream that sums gradients over replicas, where it notes their norms, too.
uint64_t norm_scratch_bytes(std::string_view device, const model_config& model);

/// How the ranks of a group are placed.
struct group_placement {
  /// Several ranks of the job share a device, which NCCL refuses.
  bool shared_devices = false;
};

/// Opens this rank's end of a group for memory of `owner`: Gloo for host memory; for CUDA NCCL, or
/// Gloo through host buffers where devices are shared.
result<std::unique_ptr<pending_group>> open_group(device& owner, const group_options& options,
                                                  const group_placement& placement);

}  // namespace troupe::gpu
