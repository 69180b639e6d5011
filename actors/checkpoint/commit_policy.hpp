// The two-phase commit of a checkpoint, without actors: who must vote, who has, what follows.
//
// DataStates-LLM names two-phase commit and leaves the messages, timeouts and recovery open; this
// is what fills them in. A rank votes after its file and its folder are on the disk; a node gathers
// its ranks; the root gathers the nodes, and on the last yes writes the manifest. Both gather with
// this policy. Presumed abort: what was never committed is nothing, whoever dies.
//
//   idle --begin--> collecting --last yes--> writing --written--> idle   committed
//                       |  no, deadline         | failed
//                       +----------> idle <-----+                        aborted
//
// Invariants
//   COM-1  The decision to write follows a yes of every member for the same checkpoint, and comes
//     once.
//   COM-2  After an abort nothing that was asked for that checkpoint changes anything: late votes
//     are dropped and counted.
//   COM-3  Votes of another epoch are dropped: two roots never count the same vote.
//   COM-4  Collecting ends by the deadline at the latest. Writing has none: whether a manifest that
//     is being written will be on the disk is not known until its writer has answered or died.
//   COM-5  What the ranks wrote may be removed only where no manifest can name it: not after
//     writing has begun, however that ends. The next start knows, since it reads what is there.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::checkpoint {

/// Which checkpoint: one epoch never makes two of one step at a time.
struct checkpoint_id {
  uint64_t step = 0;
  uint64_t epoch = 0;
  bool operator==(const checkpoint_id&) const = default;
};

/// What the policy wants done.
struct commit_step {
  enum class kind : uint8_t {
    nothing,
    write,      ///< all have voted yes: write the manifest (a node: vote yes for its ranks)
    committed,  ///< the manifest is on the disk: tell everybody
    aborted,    ///< `why`: tell everybody
  };
  kind what = kind::nothing;
  checkpoint_id which;
  std::string why;
  bool remove = false;  ///< of an aborted one: what was written is garbage (COM-5)
};

class commit_policy {
 public:
  /// `members`: how many votes make a checkpoint, at least 1.
  explicit commit_policy(uint32_t members) : members_(members) {}

  /// A checkpoint begins; its votes must be there by `deadline_ns`. An older one that still
  /// collects is aborted first. Refused (nothing) while a manifest is being written.
  std::vector<commit_step> begin(checkpoint_id which, int64_t deadline_ns);

  /// Whether begin() would take one now.
  bool can_begin() const { return state_ != state::writing; }

  /// A member's vote; of one that has voted already it changes nothing.
  commit_step yes(checkpoint_id which, uint32_t member);
  /// A vote against: one is enough.
  commit_step no(checkpoint_id which, uint32_t member, const std::string& why);
  /// A member is gone; it will not vote any more.
  commit_step lost(uint32_t member, const std::string& why);

  /// How writing the manifest ended; empty: well.
  commit_step written(checkpoint_id which, const std::string& failure);

  /// Time passes (COM-4).
  commit_step tick(int64_t now_ns);

  /// What is being collected or written.
  std::optional<checkpoint_id> open() const;
  /// Members whose vote is missing.
  std::vector<uint32_t> missing() const;
  /// Votes that came too late or from another epoch.
  uint64_t dropped() const { return dropped_; }

 private:
  enum class state : uint8_t { idle, collecting, writing };

  bool counts(checkpoint_id which, uint32_t member);
  commit_step abort(std::string why, bool remove);

  uint32_t members_;
  state state_ = state::idle;
  checkpoint_id which_;
  int64_t deadline_ns_ = 0;
  std::set<uint32_t> voted_;
  uint64_t dropped_ = 0;
};

}  // namespace troupe::checkpoint
