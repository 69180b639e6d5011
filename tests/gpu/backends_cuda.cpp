// The CUDA back end on the first real GPU, in memory that the host can reach as well.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <new>

#include "gpu/cuda.hpp"
#include "tests/gpu/backends.hpp"

namespace troupe::gpu::testing {
namespace {

/// Opened when first asked for; why not, where it cannot be.
struct real {
  std::string reason;
  std::unique_ptr<device> owner;
  std::unique_ptr<stream> compute;
  std::vector<backend> list;

  real() {
    auto opened = make_cuda_device(0);
    if (!opened) {
      reason = opened.error().message;
      return;
    }
    owner = std::move(*opened);
    const stream_options options{"compute"};
    compute = std::move(*owner->make_stream(options));
    list.push_back(
        {owner->facts().name, &owner->ops(), owner.get(), options, compute.get(), false});
  }
};

bool has_gpu() {
  static const bool has = static_cast<bool>(cuda_device_count());
  return has;
}

}  // namespace

const std::vector<backend>& backends() {
  static const real all;
  if (!all.reason.empty()) MESSAGE("SKIPPED: " << all.reason);
  return all.list;
}

void* allocate_shared(size_t bytes) {
  if (!has_gpu()) return ::operator new (bytes, std::align_val_t{256});
  void* p = nullptr;
  if (cudaMallocManaged(&p, bytes + 1) != cudaSuccess) throw std::bad_alloc();
  return p;
}

void release_shared(void* p) {
  if (has_gpu()) {
    cudaFree(p);
  } else {
    ::operator delete (p, std::align_val_t{256});
  }
}

}  // namespace troupe::gpu::testing
