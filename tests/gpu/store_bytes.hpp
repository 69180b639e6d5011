// What a store holds in all, for tests of how much that is.
#pragma once

#include "gpu/store/store.hpp"

namespace troupe::gpu {

/// Bytes of all parts of all chunks.
inline size_t bytes_of(const parameter_store& store) {
  size_t sum = 0;
  for (int c = 0; c < store.chunk_count(); ++c)
    for (part which : {part::weight, part::master, part::m, part::v, part::grad})
      sum += store.bytes(c, which);
  return sum;
}

}  // namespace troupe::gpu
