// The shared memory in which a host's loader lays out batches: slots of tokens [R,T], then targets
// [R,T], and where a row may hold several documents the first token and the end of each token's
// document [R,T] each; all int32. R rows are those that the ranks of the host read.
//
// It is an anonymous memory file: it has no name that could be left behind, dies with its last
// user, and is opened by others through /proc/PID/fd, which the system allows to the same user
// only.
//
// Invariants
//   BTM-1  Readers map it read-only; its size is sealed by the loader before anybody maps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "gpu/ops.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/memory_account.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"
#include "io/file.hpp"

namespace troupe::train {

/// What one batch has, [R,T] each, mapped from the loader's shared memory.
struct batch_view {
  const int32_t* tokens = nullptr;
  const int32_t* targets = nullptr;
  gpu::row_documents documents = {};  ///< null where a row is one
};

/// What a slot holds.
struct batch_layout {
  int64_t rows = 0;
  int64_t seq = 0;         ///< tokens of a row
  bool documents = false;  ///< where they begin and end is told

  /// Arrays [R,T].
  int64_t arrays() const noexcept { return documents ? 4 : 2; }
};

/// A batch that no loader holds: its rows, their tokens, and how many tokens it may have.
inline constexpr error_kind<int64_t, int64_t, uint64_t> batch_too_large{
    "batch_too_large", errc::bad_config,
    "a batch of {} x {} tokens is too large, expected at most {} tokens",
    "lower train.batch or train.seq_len"};

/// A whole batch of the job.
batch_layout batch_of(const config::job& job);

class batch_memory {
 public:
  /// Bytes of one slot.
  static uint64_t slot_bytes_of(const batch_layout& what) noexcept;

  /// bad_config where so many slots are more than one memory may hold.
  static status check(const batch_layout& what, int64_t slots);

  /// Makes the memory for so many slots, writable here.
  static result<batch_memory> create(const batch_layout& what, int64_t slots);

  /// Maps a loader's memory for reading; it should be just so large. `documents`: its slots tell
  /// them.
  static result<batch_memory> open(const std::string& path, uint64_t slot_bytes, int64_t slots,
                                   bool documents = false);

  batch_memory(batch_memory&& other) noexcept;
  batch_memory& operator=(batch_memory&&) = delete;
  ~batch_memory();

  /// "/proc/PID/fd/N" of the creator.
  std::string path() const;
  uint64_t slot_bytes() const noexcept { return slot_bytes_; }
  int64_t slots() const noexcept { return slots_; }

  /// Where a slot's arrays are written, one behind the other; the creator's side only.
  int32_t* slot(int64_t index) noexcept;

  /// All slots, for pinning.
  std::span<const std::byte> all() const noexcept {
    return {static_cast<const std::byte*>(data_), slot_bytes_ * static_cast<uint64_t>(slots_)};
  }

  /// The batch in a slot.
  batch_view view(int64_t index) const noexcept;

 private:
  batch_memory(io::unique_fd fd, void* data, uint64_t slot_bytes, int64_t slots, bool documents)
      : fd_(std::move(fd)),
        data_(data),
        slot_bytes_(slot_bytes),
        slots_(slots),
        documents_(documents) {}

  io::unique_fd fd_;
  void* data_ = nullptr;
  uint64_t slot_bytes_ = 0;
  int64_t slots_ = 0;
  bool documents_ = false;
  io::memory_account::booking booking_;  ///< of the creator's side
};

}  // namespace troupe::train
