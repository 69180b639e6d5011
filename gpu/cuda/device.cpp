// Opening CUDA devices; see device.hpp.
#include "gpu/cuda/device.hpp"

#include <atomic>
#include <cassert>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "gpu/cuda.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/cuda/memory.hpp"
#include "gpu/cuda/stream.hpp"

namespace troupe::gpu {
namespace cuda {

result<std::unique_ptr<cuda_device>> cuda_device::open(int ordinal, const ops_factory& make_ops) {
  TROUPE_TRY(count, cuda_device_count());
  if (ordinal < 0 || ordinal >= count) {
    return error(errc::unavailable,
                 "GPU not found: " + std::to_string(ordinal) + ": this process may use " +
                     std::to_string(count) + ", numbered from 0",
                 "nvidia-smi lists them; CUDA_VISIBLE_DEVICES may hide some");
  }
  TROUPE_CUDA_TRY(cudaSetDevice(ordinal));
  cudaDeviceProp properties{};
  TROUPE_CUDA_TRY(cudaGetDeviceProperties(&properties, ordinal));
  cudaStream_t set_up = nullptr;
  TROUPE_CUDA_TRY(cudaStreamCreateWithPriority(&set_up, cudaStreamNonBlocking, 0));
  std::unique_ptr<cuda_device> made(new cuda_device(ordinal, properties, set_up));
  if (make_ops) {
    TROUPE_TRY(ops, make_ops(*made));
    made->ops_ = std::move(ops);
  }
  return made;
}

cuda_device::cuda_device(int ordinal, const cudaDeviceProp& properties, cudaStream_t set_up)
    : ordinal_(ordinal),
      properties_(properties),
      set_up_(set_up),
      pool_(std::make_shared<event_pool>(ordinal)) {}

cuda_device::~cuda_device() {
  forget(cudaSetDevice(ordinal_));
  ops_.reset();
  forget(cudaStreamDestroy(set_up_));
}

namespace {

/// Dense bf16 products by NVIDIA's data sheets, FLOP/s; 0 for what is not in the list.
double sheet_flops_of(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (has("H100 PCIe")) return 756e12;
  if (has("H100 NVL") || has("H200 NVL")) return 835e12;
  if (has("H100") || has("H200") || has("GH200")) return 989.4e12;
  if (has("A100")) return 312e12;
  return 0;
}

}  // namespace

device_facts cuda_device::facts() const {
  const std::string isa =
      "sm_" + std::to_string(properties_.major) + std::to_string(properties_.minor);
  device_facts out{std::string(properties_.name) + ", " + isa, isa, 0, properties_.totalGlobalMem};
  size_t free = 0, all = 0;
  if (cudaSetDevice(ordinal_) == cudaSuccess && cudaMemGetInfo(&free, &all) == cudaSuccess)
    out.free_bytes = free;
  out.sheet_flops = sheet_flops_of(properties_.name);
  return out;
}

result<std::unique_ptr<stream>> cuda_device::make_stream(const stream_options& options) {
  TROUPE_TRY(made, cuda_stream::make(*this, ordinal_, pool_, options));
  return std::unique_ptr<stream>(std::move(made));
}

result<buffer> cuda_device::allocate(size_t bytes) {
  TROUPE_CUDA_TRY(cudaSetDevice(ordinal_));  // CDV-1
  return allocate_device(bytes, set_up_);
}

result<std::shared_ptr<void>> cuda_device::pin(void* memory, size_t bytes) {
  if (bytes == 0) return std::shared_ptr<void>{};
  TROUPE_CUDA_TRY(cudaSetDevice(ordinal_));
  cudaError_t code = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
  if (code != cudaSuccess && code != cudaErrorMemoryAllocation) {  // mapped for reading only?
    forget(code);
    code = cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterReadOnly);
  }
  if (code == cudaErrorMemoryAllocation)
    return error{errc::no_memory, "cannot lock " + std::to_string(bytes) + " bytes in host memory",
                 "raise ulimit -l, or lower checkpoint.ring_bytes"};
  TROUPE_CUDA_TRY(code);
  return std::shared_ptr<void>(memory, [ordinal = ordinal_](void* p) {
    forget(cudaSetDevice(ordinal));
    forget(cudaHostUnregister(p));
  });
}

gpu::ops& cuda_device::ops() noexcept {
  assert(ops_ != nullptr);
  return *ops_;
}

}  // namespace cuda

result<int> cuda_device_count() {
  // A rank has more than eight streams, and streams that share a hardware queue wait for each
  // other: a receive that spins would hold up the send its peer spins for. Read at the first call.
  static const int queues = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  // A kernel that is loaded when it is first launched, CUDA's default, may wait until the device is
  // idle, holding a lock that every other call wants: behind a receive that waits for a peer whose
  // send waits for such a lock, for ever.
  static const int loading = setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  static_cast<void>(queues + loading);
  int count = 0;
  TROUPE_CUDA_TRY(cudaGetDeviceCount(&count));
  return count;
}

namespace {

/// A bit for each number.
std::atomic<uint64_t> opened_before{0};

}  // namespace

std::vector<int> opened_cuda_devices() {
  std::vector<int> out;
  const auto all = opened_before.load();
  for (int i = 0; i < 64; ++i)
    if ((all >> i & 1) != 0) out.push_back(i);
  return out;
}

result<std::unique_ptr<device>> make_cuda_device(int ordinal, const cuda_options& options) {
  TROUPE_TRY(made, cuda::cuda_device::open(ordinal, [&](cuda::cuda_device& owner) {
               return cuda::make_device_ops(owner,
                                            {.fused_bias_gradients = options.fused_bias_gradients});
             }));
  if (ordinal < 64) opened_before |= uint64_t{1} << ordinal;
  return std::unique_ptr<device>(std::move(made));
}

}  // namespace troupe::gpu
