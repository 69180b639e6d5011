// A CUDA device: facts, streams, memory.
//
// Invariants
//   CDV-1  Every entry sets the calling thread's current device: callers need not know of it.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "gpu/cuda/event.hpp"
#include "gpu/device.hpp"
#include "gpu/ops.hpp"

namespace troupe::gpu::cuda {

class cuda_device final : public device {
 public:
  /// Makes the operations of a device that is just being opened.
  using ops_factory = std::function<result<std::unique_ptr<gpu::ops>>(cuda_device&)>;

  /// Device `ordinal` with the operations of `make_ops`; without one, ops() may not be called.
  /// Fails with unavailable.
  static result<std::unique_ptr<cuda_device>> open(int ordinal, const ops_factory& make_ops = {});
  ~cuda_device() override;
  cuda_device(const cuda_device&) = delete;
  cuda_device& operator=(const cuda_device&) = delete;

  device_facts facts() const override;
  /// Every stream is a cuda_stream.
  result<std::unique_ptr<stream>> make_stream(const stream_options& options) override;
  result<buffer> allocate(size_t bytes) override;
  result<std::shared_ptr<void>> pin(void* memory, size_t bytes) override;
  bool host_accessible() const noexcept override { return false; }
  gpu::ops& ops() noexcept override;

  int ordinal() const noexcept { return ordinal_; }
  const cudaDeviceProp& properties() const noexcept { return properties_; }

 private:
  cuda_device(int ordinal, const cudaDeviceProp& properties, cudaStream_t set_up);

  const int ordinal_;
  const cudaDeviceProp properties_;
  const cudaStream_t set_up_;  // zeroes new memory
  const std::shared_ptr<event_pool> pool_;
  std::unique_ptr<gpu::ops> ops_;
};

}  // namespace troupe::gpu::cuda
