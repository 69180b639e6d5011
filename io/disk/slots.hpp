// The ring of a lazy checkpoint: a fixed number of slots of equal size in one arena, through which
// every byte goes from the state in memory to a file, or back. Fixed slots with a free list, not a
// ring buffer: with head and tail a wrap-around can hand out live memory, with slots it cannot.
//
// A slot's life: free -> filling (its owner copies or reads into it) -> filled (its checksum is
// known) -> writing (the disk has it) -> free. Reads go free -> writing -> filled -> free.
//
// Invariants
//   SL-1  A slot has one owner: the free list, or exactly one lease (class slot, move-only).
//   SL-2  free + filling + filled + writing = count, after every step.
//   SL-3  Slots never overlap; slot i is the bytes [i * slot_bytes, (i + 1) * slot_bytes).
//   SL-4  A slot that the disk may still touch is never free: its lease lies with the disk until
//         the completion comes. If that never comes, the lease is abandoned: the slot stays in
//         `writing` for good and its arena is never unmapped.
//   SL-5  Nobody waits without an end: take() has a timeout, try_take() does not wait at all.
//
// Threads: all of slots may be called from any thread; a lease belongs to one thread at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "io/base/result.hpp"
#include "io/base/memory_account.hpp"

namespace troupe::io {

/// What O_DIRECT asks of addresses, offsets and lengths, here and everywhere in io/disk.
inline constexpr size_t disk_block = 4096;

/// The next multiple of disk_block (of values up to 2^63).
constexpr uint64_t block_up(uint64_t bytes) {
  return (bytes + disk_block - 1) / disk_block * disk_block;
}

enum class slot_state : uint8_t { free, filling, filled, writing };

struct slots_options {
  size_t slot_bytes = size_t{8} << 20;  ///< 4 to 8 MiB are best; a multiple of disk_block
  int count = 0;                        ///< 1..65536
  /// Called once with the whole arena after it was touched (to pin it for a GPU), and before the
  /// arena goes. An error of `pin` is an error of make().
  std::function<status(std::span<std::byte>)> pin = {};
  std::function<void(std::span<std::byte>)> unpin = {};
};

/// How many slots are in which state; their sum is the ring's count (SL-2).
struct slot_counts {
  int free = 0, filling = 0, filled = 0, writing = 0;
  int abandoned = 0;  ///< of those in writing: the disk never answered (SL-4)
  bool operator==(const slot_counts&) const = default;
};

class slots;

/// Keeps something until the process ends: memory that the kernel may still write to (SL-4).
void keep_forever(std::shared_ptr<void> what);

/// The lease of one slot: gives it back when it goes. Empty after a move.
class slot {
 public:
  slot() = default;
  slot(slot&& other) noexcept
      : ring_(std::move(other.ring_)), index_(std::exchange(other.index_, -1)) {}
  slot& operator=(slot&& other) noexcept;
  ~slot() { give_back(); }

  explicit operator bool() const noexcept { return index_ >= 0; }
  /// Its place in the arena, 0..count-1: the index of the registered buffer, too.
  int index() const noexcept { return index_; }
  /// All its bytes. Not for use while the disk has it.
  std::span<std::byte> bytes() const;
  const std::shared_ptr<slots>& ring() const noexcept { return ring_; }

  /// Steps of the life above. Only these are allowed (asserted): to filled from filling or
  /// writing, to writing from filling or filled.
  void filled();
  void writing();
  void give_back() noexcept;
  /// SL-4: the disk may still touch the bytes and will never say when it is done.
  void abandon() noexcept;

 private:
  friend class slots;
  slot(std::shared_ptr<slots> ring, int index) : ring_(std::move(ring)), index_(index) {}

  std::shared_ptr<slots> ring_;
  int index_ = -1;
};

class slots : public std::enable_shared_from_this<slots> {
 public:
  /// Maps the arena, advises huge pages, touches every page (a first touch later would be ten times
  /// slower than the disk), pins. Errors: bad_config (sizes), no_memory, what `pin` said.
  static result<std::shared_ptr<slots>> make(const slots_options& options);

  slots(const slots&) = delete;
  slots& operator=(const slots&) = delete;
  ~slots();

  /// A slot in state filling, or nothing.
  std::optional<slot> try_take();
  /// Waits at most `timeout` for one. For threads that may block; an actor may not.
  std::optional<slot> take(std::chrono::milliseconds timeout);

  int count() const noexcept { return static_cast<int>(states_.size()); }
  size_t slot_bytes() const noexcept { return slot_bytes_; }
  std::span<std::byte> arena() const noexcept { return arena_; }
  slot_counts counts() const;

 private:
  friend class slot;
  slots(const slots_options& options, void* mapping, size_t mapped);
  std::optional<slot> take_locked();
  void move_locked(int index, slot_state to);
  void step(int index, slot_state to);
  void abandon(int index);
  int& counted(slot_state state);
  std::span<std::byte> bytes_of(int index) const;

  const size_t slot_bytes_;
  void* const mapping_;
  const size_t mapped_;
  memory_account::booking booking_;
  std::span<std::byte> arena_;
  std::function<void(std::span<std::byte>)> unpin_;

  mutable std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<slot_state> states_;
  std::vector<int> free_;  ///< a stack: the slot used last is the warmest
  slot_counts counts_;
};

}  // namespace troupe::io
