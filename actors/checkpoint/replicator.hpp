// The replicator: copies committed checkpoints into a second tier, a slower or shared folder, while
// the training goes on.
//
// Detached, because files block. Between two slots it looks into its mailbox, so it can be asked,
// and told to go, while a copy is under way; keeping to a bandwidth is a pause between two slots.
//
//   run --CopyCheckpoint--> replicator: the newest told is copied next (copy_policy.hpp)
//   replicator --HoldCheckpoint--> committer: retention leaves it alone meanwhile
//   replicator --Notice--> run: the first failure in a row, and that it goes well again
//   run --FinishCopies--> replicator, at the end: answered when the last checkpoint is there
//
// Invariants
//   CRR-1  The second tier holds whole checkpoints only, each verified as it was read (CY-1, CY-2).
//   CRR-2  A replicator that ends leaves no half copy behind (CY-3).
//   CRR-3  The second tier's own retention is applied after each copy, and keeps the newest.
//
// Failure policy: the run goes on without the copy.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include <caf/typed_response_promise.hpp>

#include "actors/base/traced.hpp"
#include "actors/checkpoint/copy_policy.hpp"
#include "actors/job/spawn_record.hpp"
#include "io/checkpoint/copy.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/checkpoint/rate_limit.hpp"
#include "io/checkpoint/retention.hpp"
#include "io/config/job.hpp"
#include "io/disk/storage.hpp"
#include "messages/actors.hpp"

namespace troupe::checkpoint {

/// The second tier, and what is being copied into it. All calls block.
class tier_copies {
 public:
  tier_copies(config::second_tier_section tier, const io::checkpoint::origin& launch,
              io::storage& storage);

  /// Begins the copy of a checkpoint. Errors: as of copier::begin.
  status begin(const std::filesystem::path& from);
  /// Moves its next slot; the bytes moved. Errors: as of copier::advance.
  result<uint64_t> advance() { return copy_->advance(); }
  bool finished() const { return copy_->finished(); }
  io::checkpoint::copy_progress progress() const;
  /// Leaves the copy, if there is one (CRR-2).
  void leave();
  /// Whether the second tier has a copy of a checkpoint.
  bool holds(const std::filesystem::path& from) const;
  /// CRR-3.
  status retain();

 private:
  config::second_tier_section tier_;
  io::storage* storage_;
  io::checkpoint::caretaker caretaker_;
  std::unique_ptr<io::disk> disk_;
  std::unique_ptr<io::checkpoint::copier> copy_;   ///< goes before its disk
  std::optional<io::checkpoint::reading> source_;  ///< keeps what is copied there
};

struct replicator_state {
  static inline const char* name = "replicator";
  uint32_t epoch = 0;
  config::second_tier_section tier;  ///< dir is not empty
  committer_actor committer;         ///< of the first tier; may be none
  copy_policy policy;
  io::checkpoint::rate_limit limit{0};
  std::optional<tier_copies> copies;  ///< of policy.under_way()
  int64_t copy_began_ns = 0;
  caf::strong_actor_ptr run;  ///< who told of the last checkpoint
  struct farewell {
    uint64_t step = 0;
    message_header cause;
    caf::typed_response_promise<msg<fbs::CheckpointFolder>> answer;
  };
  std::optional<farewell> last;  ///< FinishCopies that is not answered yet
};

/// The second tier of the record's job; `storage` is of both tiers and outlives the replicator.
replicator_actor::behavior_type replicator(traced_pointer<replicator_actor, replicator_state> self,
                                           const train::spawn_record& record, io::storage* storage);

}  // namespace troupe::checkpoint
