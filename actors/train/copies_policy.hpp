// Copies in memory as the job sees them: when one is due, and to which state a recovery goes back.
//
// Pure. The state beyond the tensors (settings, tokens) of a copied step is kept here: the run
// outlives its nodes, and what it forgot is not gone back to. A run that goes on for a lost head
// has forgotten all of it: it takes tokens and loss from the processes that hold copies, and the
// settings from the journal.
//
// Invariants
//   CPY-1  A state is taken only if every rank's share of it is held, of one tag: by the rank's own
//     process, or by its keeper's. One share less, and the job goes back to the disk.
//   CPY-2  Of those the newest; none that is not newer than the newest committed checkpoint, and
//     none of a way that the job has gone back from.
//   CPY-3  What the head before it ordered is believed only as far as that has said of which way
//     it is (believed_copies).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "actors/job/job_memory.hpp"
#include "actors/job/train_state.hpp"
#include "io/checkpoint/memory_copies.hpp"

namespace troupe::train {

using io::checkpoint::copy_tag;
using io::checkpoint::held_copy;

/// A state to go back to.
struct copy_choice {
  copy_tag tag;
  checkpoint::train_state state;
  std::vector<bool> from_keeper;  ///< by rank: its own process does not hold its share
  uint64_t fetched_bytes = 0;     ///< of those
};

class copies_policy {
 public:
  copies_policy() = default;
  copies_policy(int64_t every, std::vector<int> keepers)
      : every_(every), keepers_(std::move(keepers)) {}

  /// Whether any are taken.
  bool taken() const noexcept { return every_ > 0 && !keepers_.empty(); }
  const std::vector<int>& keepers() const noexcept { return keepers_; }
  bool due(uint64_t step) const noexcept {
    return taken() && step % static_cast<uint64_t>(every_) == 0;
  }
  /// A copy is ordered.
  void ordered(copy_tag tag, checkpoint::train_state state);
  /// The newest step that one was ordered of; 0: none.
  uint64_t newest() const noexcept { return states_.empty() ? 0 : states_.rbegin()->first.step; }
  /// Whether there may be any to go back to.
  bool any() const noexcept { return !states_.empty() || (taken() && believed_.epoch > 0); }
  /// Of a head that was lost (CPY-3); until it has gone back to one, or to the disk.
  void believe(const believed_copies& ordered) { believed_ = ordered; }

  /// What each rank's process holds, by rank: the state to go back to, if there is one that is
  /// newer than step `above` (CPY-1, CPY-2).
  std::optional<copy_choice> choose(std::span<const std::vector<held_copy>> held,
                                    uint64_t above) const;
  /// The job is there now: everything else is of a way that nobody goes on (CPY-2). None: it went
  /// back to the disk.
  void gone_back(std::optional<copy_tag> to);
  /// What a load failed of: a copy that is damaged or missing is not tried again.
  void load_failed(const error& why);

 private:
  /// What can still be whole somewhere: two generations, and the one that is being written.
  static constexpr size_t states_kept = 3;
  std::map<copy_tag, checkpoint::train_state> candidates(
      std::span<const std::vector<held_copy>> held) const;

  int64_t every_ = 0;
  std::vector<int> keepers_;
  std::map<copy_tag, checkpoint::train_state> states_;
  believed_copies believed_;
};

}  // namespace troupe::train
