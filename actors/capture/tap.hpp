// The tap: messages themselves, beside the records, for those who asked to see what is in them.
//
// Off, it costs the traced one relaxed load a message. On, what fits its filter is kept by
// reference in a bounded queue, which the observer empties.
//
// Invariants
//   TAP-1  The traced never waits: a full or contended tap drops the message and counts it.
//   TAP-2  Memory is bounded: at most `limit` messages and `byte_limit` bytes are held.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "messages/any_msg.hpp"

namespace troupe {

/// A message that an actor was given.
struct tapped {
  uint32_t actor = 0;    ///< the receiver's number
  int64_t begin_ns = 0;  ///< when its handling began
  uint8_t flags = 0;     ///< record_flag
  any_msg message;
};

/// The tap of an actor system (runtime.hpp).
class tap {
 public:
  static constexpr size_t limit = 4096;
  static constexpr size_t byte_limit = 16u << 20;

  /// Whom to look at: (receiver's number, message type).
  using filter = std::function<bool(uint32_t actor, uint16_t type)>;

  /// Opens the tap; an empty filter closes it and drops what it holds.
  void open(filter wanted);

  bool is_open() const noexcept { return open_.load(std::memory_order_relaxed); }

  /// From the traced.
  void offer(uint32_t actor, int64_t begin_ns, uint8_t flags, const any_msg& m) noexcept;

  /// What was taken since the last time.
  std::vector<tapped> drain();

  /// Messages that fitted the filter and were dropped (TAP-1).
  uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> open_{false};
  std::atomic<uint64_t> dropped_{0};
  std::mutex mutex_;
  filter wanted_;
  std::vector<tapped> held_;
  size_t bytes_ = 0;
};

}  // namespace troupe
