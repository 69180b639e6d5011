// Memory of a CUDA device, host memory that it copies from and to by itself, and a stream's
// working memory.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "gpu/device.hpp"

namespace troupe::gpu::cuda {

/// What a pointer points at.
enum class memory_kind : uint8_t {
  pageable,  ///< plain host memory, which the device's copy engines cannot reach
  pinned,
  device,
};

/// Asks the runtime; null and what it does not know are pageable.
result<memory_kind> kind_of(const void* p);

/// Zeroed memory of the calling thread's current device, aligned to 256 bytes; zeroed through
/// `stream`, which is waited for; booked on that device's account under the name of its holder
/// (io/base/memory_account.hpp). Fails with no_memory, naming what was asked for and what is free,
/// or who holds the budget.
result<buffer> allocate_device(size_t bytes, cudaStream_t stream);

/// The same with whatever it holds.
result<buffer> allocate_uncleared(size_t bytes);

/// Working memory of one stream, kept between operations (OPS-1): grows to the largest demand and
/// stays. Smaller blocks stay as well: graphs refer to the block of their time (graphs.hpp); each
/// is at least an eighth larger than the one before, and a stream's operations are few. Used by the
/// stream's thread alone.
class scratch_memory {
 public:
  /// At least `bytes`, aligned to 256; contents undefined; valid for what is enqueued on the stream
  /// until the next call, which may reuse it in stream order.
  result<void*> get(size_t bytes);

 private:
  std::vector<buffer> blocks_;  // the last is in use
};

}  // namespace troupe::gpu::cuda
