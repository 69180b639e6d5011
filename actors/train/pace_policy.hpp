// When a checkpoint begins, waits or is left out: how many may be under way at a time, and what
// happens to one that is due when there is no room.
//
// Two are under way at most: while one is still being written, the next is captured. A third one
// would only make the queue longer: the disk is slower than the checkpoints come.
//
// Invariants
//   PAC-1  Nothing is dropped silently: what is left out is counted.
//   PAC-2  A checkpoint that a person asks for is never left out.
#pragma once

#include <cstdint>
#include <set>

#include "io/config/job.hpp"

namespace troupe::train {

class pace_policy {
 public:
  static constexpr size_t most_open = 2;

  enum class verdict : uint8_t {
    none,      ///< nothing is due
    begin,     ///< begin it now
    wait,      ///< begin it when there is room; training waits
    skip,      ///< left out
    postpone,  ///< ask again after the next step
  };

  /// A step has ended: by `every` (checkpoint.every) its checkpoint may be due, and a person may
  /// have `asked` for one.
  verdict at_step_end(uint64_t step, int64_t every, config::when_busy how, bool asked);

  void begun(uint64_t step) { open_.insert(step); }
  void ended(uint64_t step) { open_.erase(step); }

  bool has_room() const { return open_.size() < most_open; }
  /// Steps whose checkpoint is under way.
  const std::set<uint64_t>& open() const { return open_; }
  uint64_t skipped() const { return skipped_; }

 private:
  std::set<uint64_t> open_;
  bool postponed_ = false;
  uint64_t skipped_ = 0;
};

}  // namespace troupe::train
