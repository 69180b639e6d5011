// Host bytes that their owner wants back at once, on their way to a device: through a few
// page-locked blocks, so that nobody waits for the device and copies run while the next bytes are
// read.
//
// Why: a copy from ordinary memory holds up the stream's thread, and its bytes may not change
// before it is done; a reader has the next slot by then. At most `blocks` blocks are under way.
//
// Invariants
// PIN-1 A block is written again only when the event behind its last copy is done.
// PIN-2 A stream that fails holds nobody up: its events complete (DEV-3), and its synchronize()
//   tells the error.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <span>

#include "gpu/device.hpp"
#include "io/base/memory_account.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

class pinned_upload {
 public:
  static constexpr size_t usual_block_bytes = size_t{4} << 20;
  static constexpr int usual_blocks = 4;
  /// Copies go by `to`, which outlives this. Booked as "copies to a GPU". Fails with no_memory.
  static result<std::unique_ptr<pinned_upload>> make(stream& to,
                                                     size_t block_bytes = usual_block_bytes,
                                                     int blocks = usual_blocks);
  /// Waits for the copies under way.
  ~pinned_upload();
  pinned_upload(const pinned_upload&) = delete;
  pinned_upload& operator=(const pinned_upload&) = delete;

  /// Enqueues copies of `bytes` to `destination`; they are the caller's again on return. Blocks
  /// while all blocks are under way, by event. By several threads at once.
  void put(void* destination, std::span<const std::byte> bytes);

 private:
  struct block {
    std::byte* data = nullptr;
    event_ptr copied;
  };
  struct release {
    void operator()(void* p) const;
  };

  pinned_upload(stream& to, size_t block_bytes) : to_(to), block_bytes_(block_bytes) {}
  block take();

  stream& to_;
  const size_t block_bytes_;
  io::memory_account::booking booking_;  ///< of memory_
  std::unique_ptr<std::byte, release> memory_;
  std::shared_ptr<void> pinned_;  ///< goes before the memory
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::deque<block> free_;  ///< guarded by mutex_: the one longest under way first
};

}  // namespace troupe::gpu
