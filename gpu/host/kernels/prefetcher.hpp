// Fetching what will be packed next while the present blocks are multiplied.
//
// Why: packing reads a block once, from the third level cache or from memory; waiting for it there
// cost a tenth of a product's time. Asked for line by line between multiplications it costs
// nothing.
#pragma once

#include <cstdint>

#include "gpu/host/kernels/kernel_table.hpp"
#include "gpu/host/kernels/vec.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

/// A block of a matrix as it lies in memory.
struct region {
  const char* data;
  int64_t rows, bytes, stride;  // of a row; between rows, in bytes
  int64_t at = 0;               // of the row that is being fetched

  /// Asks the second level cache for a line that has not been asked for; false: all have been.
  TROUPE_INLINE bool fetch_line() {
    if (rows <= 0) return false;
    __builtin_prefetch(data + at, 0, 2);
    at += 64;
    if (at < bytes) return true;
    at = 0;
    data += stride;
    --rows;
    return true;
  }
};

/// `rows` rows of `width` elements of T, `ld` elements apart.
template <class T>
region region_of(const T* data, int64_t rows, int64_t width, int64_t ld) {
  constexpr int64_t size = sizeof(T);
  return {reinterpret_cast<const char*>(data), rows, width * size, ld * size};
}

/// The blocks that will be packed next: of A first, it is needed sooner.
struct prefetcher {
  region a{}, b{};

  TROUPE_INLINE void fetch_line() {
    if (!a.fetch_line()) b.fetch_line();
  }
};

}  // namespace
}  // namespace troupe::gpu::host::TROUPE_VARIANT
