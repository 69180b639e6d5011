// Host memory for tensors: aligned, on huge pages where the kernel gives them, touched before use.
#pragma once

#include <cstddef>

#include "gpu/device.hpp"

namespace troupe::gpu::host {

/// Zeroed memory, aligned to 64 bytes (2 MiB when large), every page touched, booked under the name
/// of its holder (io/base/memory_account.hpp). Fails with no_memory.
result<buffer> allocate_memory(size_t bytes);

/// Working memory of one stream, kept between operations (OPS-1): grows to the largest demand and
/// stays.
class scratch_memory {
 public:
  /// At least `bytes`, aligned to 64; contents undefined; valid until the next call. Throws
  /// std::bad_alloc.
  std::byte* get(size_t bytes);

 private:
  buffer block_;
};

/// `bytes` rounded up to whole cache lines: for carving scratch memory.
constexpr size_t round_to_line(size_t bytes) noexcept {
  return (bytes + 63) & ~size_t{63};
}

}  // namespace troupe::gpu::host
