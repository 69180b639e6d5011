// How a chunk's state lies in its swap files, by arithmetic alone.
//
//   state   := group*                        a shard of a checkpoint, its end behind it
//                                            (io/swap/chunk_shard.hpp)
//   group   := master exp_avg exp_avg_sq     float32, of the same elements
//   weights := array*                        bfloat16, one for each group; no such file in float32
//                                            training, where the masters are the weights, nor where
//                                            these are rounded whenever weights are read
//
// All arrays of a file are equally long: elements, then zeros.
//
// Why groups: an optimizer's update needs the three together and little by little, so that one read
// brings what one update takes, however large the chunk is. Why not more of them than needed: each
// is an operation of the disk. Why weights apart: they are the masters' rounding, which no
// checkpoint keeps.
//
// Invariants
//   CHF-1  Every array begins at a multiple of disk_block and is as long as one: it goes past the
//          page cache into memory uncopied.
//   CHF-2  As few groups as can be, and each as small as they then can be: the zeros of all are
//          fewer than group_grain elements for each.
//   CHF-3  The layout depends on the numbers given alone: whoever knows them finds every byte.
//   CHF-4  An array is a slot of the shard: the checksum of one is the other's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "io/disk/slots.hpp"

namespace troupe::io {

/// Which array of a group.
enum class state_part : uint8_t { master, exp_avg, exp_avg_sq };
inline constexpr int state_parts = 3;

/// What the weights of a chunk are, and where.
enum class chunk_weights : uint8_t {
  masters,  ///< of float32 training: its masters
  stored,   ///< bfloat16, in a file of their own
  derived,  ///< bfloat16, rounded from the masters by whoever reads them
};

/// Elements a group's length is a multiple of: a block of bfloat16.
inline constexpr int64_t group_grain = static_cast<int64_t>(disk_block) / 2;

/// One chunk's files.
class chunk_file {
 public:
  /// `elements` >= 1 of state, in groups of at most `most` (rounded up to group_grain).
  chunk_file(int64_t elements, int64_t most, chunk_weights weights)
      : elements_(elements), weights_(weights) {
    const int64_t limit = up(std::max<int64_t>(1, most));
    const int64_t groups = (elements + limit - 1) / limit;
    group_ = up((elements + groups - 1) / groups);  // CHF-2
  }

  int64_t elements() const noexcept { return elements_; }
  bool weights_are_masters() const noexcept { return weights_ == chunk_weights::masters; }
  /// Whether there is a file of weights.
  bool has_weights() const noexcept { return weights_ == chunk_weights::stored; }
  /// Whether who reads weights rounds masters.
  bool derives_weights() const noexcept { return weights_ == chunk_weights::derived; }
  /// Elements that a group has room for.
  int64_t group_elements() const noexcept { return group_; }
  int groups() const noexcept { return static_cast<int>((elements_ + group_ - 1) / group_); }
  int64_t first(int group) const noexcept { return group * group_; }
  /// Elements of a group; fewer than group_elements() in the last.
  int64_t count(int group) const noexcept { return std::min(group_, elements_ - first(group)); }

  /// Bytes of one float32 array.
  uint64_t array_bytes() const noexcept { return static_cast<uint64_t>(group_) * sizeof(float); }
  uint64_t group_bytes() const noexcept { return state_parts * array_bytes(); }
  uint64_t group_offset(int group) const noexcept {
    return static_cast<uint64_t>(group) * group_bytes();
  }
  uint64_t offset(int group, state_part part) const noexcept {
    return group_offset(group) + static_cast<uint64_t>(part) * array_bytes();
  }
  /// Of all groups: where the shard's end begins.
  uint64_t state_bytes() const noexcept { return group_offset(groups()); }

  /// Bytes of one array of weights in memory; 0 where these are the masters.
  uint64_t rounded_array_bytes() const noexcept {
    return weights_are_masters() ? 0 : static_cast<uint64_t>(group_) * 2;
  }
  /// The same of their file; 0 without.
  uint64_t weights_array_bytes() const noexcept {
    return has_weights() ? rounded_array_bytes() : 0;
  }
  uint64_t weights_offset(int group) const noexcept {
    return static_cast<uint64_t>(group) * weights_array_bytes();
  }
  uint64_t all_weights_bytes() const noexcept { return weights_offset(groups()); }

  /// Whole blocks with a group's elements of `size` bytes: what of an array is not zeros for sure.
  uint64_t used_bytes(int group, size_t size) const noexcept {
    return block_up(static_cast<uint64_t>(count(group)) * size);
  }

 private:
  static int64_t up(int64_t n) { return (n + group_grain - 1) / group_grain * group_grain; }

  int64_t elements_;
  int64_t group_ = 0;
  chunk_weights weights_;
};

}  // namespace troupe::io
