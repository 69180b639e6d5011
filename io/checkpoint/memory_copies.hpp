// Copies of ranks' shares in the memory of one process: of its own ranks, and of those that it
// keeps for others. A run that loses a node goes back to them (docs/healing.md, "Copies in
// memory").
//
// Owned by the process, not by a worker: epochs come and go, what it holds stays.
//
// Of each rank there are two generations. One is written while the other is whole, so that at every
// moment of a copy the step before is there; who orders copies begins none before the one before it
// is whole everywhere. A share is the rank's stream as a shard has it (save_plan.hpp), cut into the
// same slots, each with its CRC32C.
//
// Invariants
//   MC-1  Only what is whole is found: begun, filled, summed and sealed. A writer that dies leaves
//     a torn generation, which nobody gets and which is the next to be overwritten.
//   MC-2  Of two whole generations the one with the lesser tag (epoch, then step) is overwritten.
//   MC-3  All copies together never take more than the bytes that are allowed.
//   MC-4  What somebody still holds is not overwritten in place.
//
// Thread contract: memory_copies may be called by several threads at once; a copy that is being
// written belongs to its writer.
#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/rank_grid.hpp"
#include "io/base/result.hpp"

namespace troupe::io::checkpoint {

/// Which state a copy is of: the epoch that took it, the step after which it was taken.
struct copy_tag {
  uint64_t epoch = 0;
  uint64_t step = 0;
  auto operator<=>(const copy_tag&) const = default;
};

/// How a share is cut.
struct copy_shape {
  rank_grid layout;
  uint32_t slot_bytes = 0;
  uint64_t stream_bytes = 0;
  bool operator==(const copy_shape&) const = default;
  uint64_t slots() const noexcept;
};

/// A copy whose bytes are not what was summed: the rank, the step, the slot.
inline constexpr error_kind<int, uint64_t, uint64_t> copy_damaged{
    "copy_damaged", errc::unavailable,
    "the copy in memory of rank {}'s share of step {} is damaged: the checksum of its slot {} is "
    "wrong"};
/// A share that is not where it was said to be: the rank, the step.
inline constexpr error_kind<int, uint64_t> copy_missing{
    "copy_missing", errc::unavailable, "the copy in memory of rank {}'s share of step {} is gone"};
/// More than is allowed: bytes wanted in all, bytes allowed.
inline constexpr error_kind<uint64_t, uint64_t> copies_too_large{
    "copies_too_large", errc::no_memory,
    "copies in memory need {} bytes, and checkpoint.memory.bytes allows {}",
    "raise checkpoint.memory.bytes; `troupe plan` says what is needed"};

/// One rank's share of one step.
class memory_copy {
 public:
  /// Error no_memory.
  static result<std::shared_ptr<memory_copy>> make(int rank, copy_tag tag, const copy_shape& shape);

  int rank() const noexcept { return rank_; }
  copy_tag tag() const noexcept { return tag_; }
  const copy_shape& shape() const noexcept { return shape_; }
  std::span<std::byte> bytes() noexcept { return {data_.get(), shape_.stream_bytes}; }
  std::span<const std::byte> bytes() const noexcept { return {data_.get(), shape_.stream_bytes}; }
  /// The last is shorter.
  std::span<std::byte> slot(uint64_t index) noexcept;
  std::span<const std::byte> slot(uint64_t index) const noexcept;
  /// One for each slot.
  std::span<uint32_t> sums() noexcept { return sums_; }
  std::span<const uint32_t> sums() const noexcept { return sums_; }

  /// Every byte of the share is in it; set by who captures.
  std::atomic<bool> filled{false};
  /// Sums all slots.
  void sum() noexcept;
  /// copy_damaged unless every slot has its sum.
  status check() const;
  status check(uint64_t slot) const;

 private:
  friend class memory_copies;
  memory_copy() = default;

  int rank_ = 0;
  copy_tag tag_;
  copy_shape shape_;
  std::unique_ptr<std::byte[]> data_;
  std::vector<uint32_t> sums_;
};

/// What a state is beside its tensors and settings.
struct state_facts {
  uint64_t tokens = 0;  ///< trained on so far; 0: not known
  double loss = 0;      ///< of its step
  bool operator==(const state_facts&) const = default;
};

/// A whole copy, as it is told.
struct held_copy {
  int rank = 0;
  copy_tag tag;
  uint64_t bytes = 0;
  state_facts state = {};
  bool operator==(const held_copy&) const = default;
};

/// What is known of a generation when it is decided which one goes.
struct generation_facts {
  std::optional<copy_tag> tag;  ///< none: it is empty
  bool whole = false;
};
/// The generation into which a copy with this tag goes (MC-2): an empty one, that of the same tag,
/// a torn one, the older one. Pure.
size_t generation_for(const std::array<generation_facts, 2>& both, copy_tag tag) noexcept;

class memory_copies {
 public:
  /// MC-3; nothing may be held before it is said.
  void allow(uint64_t bytes);

  /// A place for a copy, not to be found until it is sealed. Errors: copies_too_large, no_memory.
  result<std::shared_ptr<memory_copy>> begin(int rank, copy_tag tag, const copy_shape& shape);
  /// What the state of a tag is, for whoever finds a copy of it.
  void note(copy_tag tag, const state_facts& state);
  /// It is whole: filled and summed.
  void seal(const std::shared_ptr<memory_copy>& copy);
  /// A whole copy (MC-1); null where there is none.
  std::shared_ptr<const memory_copy> find(int rank, copy_tag tag) const;
  /// All whole ones, by rank and tag.
  std::vector<held_copy> held() const;
  /// Of all generations, the torn ones too.
  uint64_t bytes() const;
  /// The job has gone back to this state: what else there is will not be gone back to.
  void keep_only(copy_tag tag);

 private:
  struct generation {
    std::shared_ptr<memory_copy> copy;
    bool whole = false;
  };
  using both = std::array<generation, 2>;
  uint64_t bytes_locked() const;

  mutable std::mutex mutex_;
  uint64_t allowed_ = 0;
  std::map<int, both> ranks_;
  static constexpr size_t states_kept = 4;  ///< two generations, one under way, one of a return
  std::map<copy_tag, state_facts> states_;
};

}  // namespace troupe::io::checkpoint
