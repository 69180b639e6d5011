// GPUs as CUDA sees them, without a context on any.
#include <cuda_runtime_api.h>

#include <cstdint>

#include <fmt/format.h>

#include "gpu/cuda.hpp"
#include "gpu/cuda/check.hpp"

namespace troupe::gpu {

namespace {

/// "GPU-" and 16 bytes in groups of 4, 2, 2, 2 and 6.
std::string text_of(const cudaUUID_t& uuid) {
  std::string out = "GPU";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", static_cast<uint8_t>(uuid.bytes[i]));
  }
  return out;
}

}  // namespace

result<std::vector<cuda_facts>> list_cuda_devices() {
  TROUPE_TRY(count, cuda_device_count());
  std::vector<cuda_facts> out;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp p{};
    TROUPE_CUDA_TRY(cudaGetDeviceProperties(&p, i));
    out.push_back({i, p.name, text_of(p.uuid), fmt::format("sm_{}{}", p.major, p.minor),
                   p.multiProcessorCount, p.totalGlobalMem});
  }
  return out;
}

std::string cuda_toolkit_version() {
  return fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

}  // namespace troupe::gpu
