// Copies and host tasks by turns.
#include "actors/train/stream_hash.hpp"

#include <algorithm>

#include <xxhash.h>

namespace troupe::train {

result<std::unique_ptr<stream_hash>> stream_hash::make(gpu::device& device, size_t piece_bytes) {
  std::unique_ptr<stream_hash> made(new stream_hash);
  made->state_ = {XXH64_createState(), XXH64_freeState};
  if (!made->state_) return error{errc::no_memory, "no memory for a hash"};
  TROUPE_TRY(piece, io::io_buffer::make(piece_bytes));
  made->piece_ = std::move(piece);
  TROUPE_TRY(pinned, device.pin(made->piece().data(), made->piece().size()));
  made->pinned_ = std::move(pinned);
  return made;
}

void stream_hash::enqueue(gpu::stream& s, const void* from, size_t bytes) {
  s.host_task([this]() -> status {
    XXH64_reset(state_.get(), 0);
    return {};
  });
  for (size_t at = 0; at < bytes; at += piece().size()) {
    const size_t now = std::min(bytes - at, piece().size());
    s.copy(piece().data(), static_cast<const std::byte*>(from) + at, now);
    s.host_task([this, now]() -> status {
      XXH64_update(state_.get(), piece().data(), now);
      return {};
    });
  }
  s.host_task([this]() -> status {
    done_.push_back(XXH64_digest(state_.get()));
    return {};
  });
}

}  // namespace troupe::train
