// Which checkpoint is copied into the second tier next, and what of its failures a person is told.
//
// One is copied at a time. Of those that are committed meanwhile only the newest waits: where the
// second tier is slower than the checkpoints come, it has fewer of them, and no queue grows.
//
// Invariants
//   REP-1  At most one checkpoint waits; what is skipped for a newer one is counted.
//   REP-2  The last checkpoint of a run is copied whatever its step, however often it was tried.
//   REP-3  Of failures in a row the first is told, then that it goes well again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/base/result.hpp"

namespace troupe::checkpoint {

class copy_policy {
 public:
  /// A checkpoint, where it was committed.
  struct load {
    uint64_t step = 0;
    std::string directory;
  };
  struct counts {
    uint64_t copied = 0;
    uint64_t passed_over = 0;  ///< for a newer one, or gone before they were copied
    uint64_t failed = 0;
  };
  /// What a person is told.
  enum class news : uint8_t { none, failed, works_again };

  /// `every` as checkpoint.second.every.
  explicit copy_policy(uint64_t every = 0) : every_(every) {}

  void committed(load what);
  void last(load what);
  /// The next to copy, unless one is being copied or none waits.
  std::optional<load> next();
  /// The one being copied is durable, gone (not_found), or has failed.
  news ended(const status& how);

  const std::optional<load>& under_way() const { return under_way_; }
  const std::optional<load>& waiting() const { return waiting_; }
  /// The newest that was copied, none at first.
  std::optional<uint64_t> durable_step() const { return durable_; }
  const counts& counted() const { return counts_; }

 private:
  uint64_t every_;
  std::optional<load> under_way_, waiting_;
  std::optional<uint64_t> durable_;
  counts counts_;
  bool failing_ = false;
};

}  // namespace troupe::checkpoint
