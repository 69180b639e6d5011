// The CUDA back end on the emulated device. Slabs of the head are a few rows, so that every test of
// it goes through several.
#include <new>

#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/cuda/device.hpp"
#include "tests/gpu/backends.hpp"
#include "tests/gpu/emulator/loop_matmul.hpp"

namespace troupe::gpu::testing {
namespace {

struct emulated {
  std::unique_ptr<cuda::cuda_device> owner;
  std::unique_ptr<stream> compute;
  std::vector<backend> list;

  emulated() {
    owner = std::move(*cuda::cuda_device::open(0, [](cuda::cuda_device&) {
      return cuda::make_cuda_ops(cuda::make_loop_matmul, {.slab_bytes = 20'000});
    }));
    const stream_options options{"compute"};
    compute = std::move(*owner->make_stream(options));
    list.push_back({"emulated GPU", &owner->ops(), owner.get(), options, compute.get(), true});
  }
};

}  // namespace

const std::vector<backend>& backends() {
  static const emulated all;
  return all.list;
}

void* allocate_shared(size_t bytes) {
  return ::operator new (bytes, std::align_val_t{256});
}

void release_shared(void* p) {
  ::operator delete (p, std::align_val_t{256});
}

}  // namespace troupe::gpu::testing
