// Allocation by the CUDA runtime; see memory.hpp.
#include "gpu/cuda/memory.hpp"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "gpu/cuda/check.hpp"
#include "gpu/cuda/working_memory.hpp"
#include "io/base/memory_account.hpp"

namespace troupe::gpu::cuda {
namespace {

/// The error of an allocation, with the numbers a person needs.
error refuse(cudaError_t code, size_t bytes, const char* call, const char* where) {
  error e = api_error(code, call);
  if (e.code != errc::no_memory) return e;
  size_t free = 0, total = 0;
  e.message =
      "cannot allocate " + std::to_string(bytes) + " bytes of " + where + " memory (" + e.message;
  const cudaError_t told = cudaMemGetInfo(&free, &total);
  forget(told);
  if (told == cudaSuccess) {
    e.message += "; " + std::to_string(free) + " of the device's " + std::to_string(total) +
                 " bytes are free";
  }
  e.message += ")";
  return e;
}

}  // namespace

/// Whoever lets go of it, on whatever thread, does so on its device (EVT-4).
result<buffer> allocate_uncleared(size_t bytes) {
  int ordinal = 0;
  TROUPE_CUDA_TRY(cudaGetDevice(&ordinal));
  TROUPE_TRY(booked, io::device_memory(ordinal).book(io::memory_holder::current(), bytes));
  const auto booking = std::make_shared<io::memory_account::booking>(std::move(booked));
  void* p = nullptr;
  if (const cudaError_t code = cudaMalloc(&p, bytes); code != cudaSuccess) {
    return refuse(code, bytes, "cudaMalloc", "device");
  }
  return buffer(p, bytes, [ordinal, booking](void* q) {
    forget(cudaSetDevice(ordinal));
    forget(cudaFree(q));
  });
}

result<memory_kind> kind_of(const void* p) {
  if (p == nullptr) return memory_kind::pageable;  // no driver promises to say so
  cudaPointerAttributes attributes{};
  TROUPE_CUDA_TRY(cudaPointerGetAttributes(&attributes, p));
  switch (attributes.type) {
    case cudaMemoryTypeHost:
      return memory_kind::pinned;
    case cudaMemoryTypeDevice:
    case cudaMemoryTypeManaged:
      return memory_kind::device;
    default:
      return memory_kind::pageable;
  }
}

result<buffer> allocate_device(size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return buffer{};
  TROUPE_TRY(made, allocate_uncleared(bytes));
  TROUPE_CUDA_TRY(cudaMemsetAsync(made.data(), 0, bytes, stream));
  TROUPE_CUDA_TRY(cudaStreamSynchronize(stream));
  return made;
}

result<void*> scratch_memory::get(size_t bytes) {
  if (blocks_.empty() || bytes > blocks_.back().bytes()) {
    if (bytes > SIZE_MAX - bytes / 8)
      return refuse(cudaErrorMemoryAllocation, bytes, "scratch", "");
    const io::memory_holder holder("scratch of operations");
    TROUPE_TRY(grown, allocate_uncleared(scratch_block_bytes(bytes)));
    blocks_.push_back(std::move(grown));
  }
  return blocks_.back().data();
}

}  // namespace troupe::gpu::cuda
