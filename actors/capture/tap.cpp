// A bounded queue with a filter in front.
#include "actors/capture/tap.hpp"

#include <utility>

namespace troupe {

void tap::open(filter wanted) {
  std::vector<tapped> dropped;  // freed outside of the lock
  std::lock_guard lock(mutex_);
  wanted_ = std::move(wanted);
  open_.store(static_cast<bool>(wanted_), std::memory_order_relaxed);
  if (wanted_) return;
  dropped.swap(held_);
  bytes_ = 0;
}

void tap::offer(uint32_t actor, int64_t begin_ns, uint8_t flags, const any_msg& m) noexcept {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (!wanted_ || !wanted_(actor, m.type())) return;
  const size_t bytes = m.header().length;
  if (held_.size() >= limit || bytes_ + bytes > byte_limit) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (held_.capacity() == 0) held_.reserve(limit);
  held_.push_back({actor, begin_ns, flags, m});
  bytes_ += bytes;
}

std::vector<tapped> tap::drain() {
  std::vector<tapped> out;
  std::lock_guard lock(mutex_);
  out.swap(held_);
  bytes_ = 0;
  return out;
}

}  // namespace troupe
