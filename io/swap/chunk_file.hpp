// How a chunk's state lies in its swap file, by arithmetic alone.
//
//   file    := group* weights
//   group   := master exp_avg exp_avg_sq    float32, of the same elements; each padded to 4096
//   weights := one array for each group, bfloat16, each padded to 4096; absent in float32 training,
//              where the masters are the weights
//
// Why groups: an optimizer's update needs the three together and little by little, so that one read
// brings what one update takes, however large the chunk is. Why not more of them than needed: each
// is an operation of the disk.
//
// Invariants
//   CHF-1  Every array begins at a multiple of disk_block and is padded to one: it goes past the
//          page cache into memory uncopied.
//   CHF-2  Groups have as many elements each as can be, but for the last: padding is less than
//          4096 bytes an array.
//   CHF-3  The layout depends on the numbers given alone: whoever knows them finds every byte.
#pragma once

#include <algorithm>
#include <cstdint>

#include "io/disk/slots.hpp"

namespace troupe::io {

/// Which array of a group.
enum class state_part : uint8_t { master, exp_avg, exp_avg_sq };
inline constexpr int state_parts = 3;

/// Elements a group's length is a multiple of: a block of bfloat16.
inline constexpr int64_t group_grain = static_cast<int64_t>(disk_block) / 2;

/// One chunk's file.
class chunk_file {
 public:
  /// `elements` >= 1 of state, in groups of at most `most` (rounded up to group_grain), with
  /// weights of 2 bytes beside them or none.
  chunk_file(int64_t elements, int64_t most, bool weights)
      : elements_(elements), weights_(weights) {
    const int64_t limit = up(std::max<int64_t>(1, most));
    const int64_t groups = (elements + limit - 1) / limit;
    group_ = up((elements + groups - 1) / groups);  // CHF-2
  }

  int64_t elements() const noexcept { return elements_; }
  bool has_weights() const noexcept { return weights_; }
  /// Elements of every group but the last.
  int64_t group_elements() const noexcept { return group_; }
  int groups() const noexcept { return static_cast<int>((elements_ + group_ - 1) / group_); }
  int64_t first(int group) const noexcept { return group * group_; }
  int64_t count(int group) const noexcept { return std::min(group_, elements_ - first(group)); }

  /// Bytes of one float32 array of a group, padding included.
  uint64_t array_bytes(int group) const noexcept {
    return block_up(static_cast<uint64_t>(count(group)) * sizeof(float));
  }
  uint64_t group_offset(int group) const noexcept {
    return static_cast<uint64_t>(group) * state_parts * full_array();
  }
  uint64_t group_bytes(int group) const noexcept { return state_parts * array_bytes(group); }
  uint64_t offset(int group, state_part part) const noexcept {
    return group_offset(group) + static_cast<uint64_t>(part) * array_bytes(group);
  }

  uint64_t weights_offset(int group) const noexcept {
    return group_offset(groups() - 1) + group_bytes(groups() - 1) +
           static_cast<uint64_t>(first(group)) * 2;
  }
  /// Of one group's weights, padding included; 0 without.
  uint64_t weights_bytes(int group) const noexcept {
    return weights_ ? block_up(static_cast<uint64_t>(count(group)) * 2) : 0;
  }
  /// Of all groups' weights, which lie together.
  uint64_t all_weights_bytes() const noexcept {
    return weights_ ? block_up(static_cast<uint64_t>(elements_) * 2) : 0;
  }

  uint64_t bytes() const noexcept {
    return group_offset(groups() - 1) + group_bytes(groups() - 1) + all_weights_bytes();
  }

 private:
  static int64_t up(int64_t n) { return (n + group_grain - 1) / group_grain * group_grain; }
  uint64_t full_array() const noexcept { return static_cast<uint64_t>(group_) * sizeof(float); }

  int64_t elements_;
  int64_t group_ = 0;
  bool weights_;
};

}  // namespace troupe::io
