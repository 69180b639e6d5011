// The committer: turns the shards that all ranks have written into a checkpoint, keeps what
// retention keeps, and exports the model at the end.
//
// Detached, because files block. A save, with the run as its coordinator (two-phase commit,
// presumed abort):
//
//   run --SaveCheckpoint--> every rank: copies its share, writes rank-R.shard into
//                           <dir>/step-N.eE.partial/, fdatasync
//   run <--Saved----------- every rank: its vote; a failure or a timeout is a vote against
//   run --SaveVotes-------> committer, where all votes do not fit into the next
//   run --CommitCheckpoint-> committer: small files and MANIFEST, each synced; sync of the folder;
//                           rename to step-N; sync of <dir>; only then the answer
//   run --AbandonCheckpoint-> committer, where a vote was against or the commit failed: the partial
//                           folder is removed
//
//   run --AmendCheckpoint--> committer, where the last state is validated behind its commit: the
//                           loss goes into MANIFEST (SV-10)
//
// What no manifest names is nothing: whoever dies when, the next start finds complete checkpoints
// and leftovers, and removes the latter.
//
// Invariants
//   ARC-1  A folder named step-N is complete, whatever happens when (SV-1).
//   ARC-2  A failed save leaves older checkpoints untouched.
//   ARC-3  The manifest is made of plans that the committer computed itself and the ranks' votes; a
//     vote that does not fit its plan makes no checkpoint.
//   ARC-4  Where the folder of checkpoints was taken away and made again, its name is durable
//     before a checkpoint in it is acknowledged.
//   ARC-5  A save that fails because that folder is gone is followed by one that finds it: the
//     committer makes it again, on its own host.
//   ARC-6  A checkpoint whose files ranks are about to update is given up here, as retention gives
//     one up (RT-3): who is killed has left it whole, or with a name that says so. Held or being
//     read it stays, and nobody updates them; so does one that is neither what the job goes on from
//     nor in one of its folders of checkpoints, and one whose run no longer waits for that when
//     it would be begun: a request may come late, or twice.
//
// Failure policy: the save fails with an answer; training goes on.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/job/spawn_record.hpp"
#include "actors/job/votes.hpp"
#include "io/checkpoint/retention.hpp"
#include "io/checkpoint/save.hpp"
#include "io/disk/storage.hpp"
#include "messages/actors.hpp"

namespace troupe::checkpoint {

/// What a checkpoint holds beyond the tensors, and how long it is kept.
struct committer_options {
  std::filesystem::path dir;
  uint64_t epoch = 0;  ///< of the shards
  train::job_plan plan;
  io::checkpoint::origin origin = {};  ///< the launch that saves
  io::storage* storage = &io::local_storage();  ///< outlives the committer
  /// What checkpoints hold of a model folder. Empty: the committer's first save gathers them, and
  /// later ones have the same, whatever becomes of the folders they came from.
  std::vector<io::checkpoint::small_file> model_files = {};
};

/// The shares of all ranks in a save of this job, by rank: as each rank computes its own (ARC-3).
result<std::vector<io::checkpoint::rank_plan>> shares_of(const train::job_plan& plan);

/// Commits the shards in `partial`, for which `votes` stand; the complete folder (ARC-1). `shares`
/// are shares_of(options.plan). Blocks.
result<std::filesystem::path> commit(io::disk& d, const committer_options& options,
                                     std::span<const io::checkpoint::rank_plan> shares,
                                     const fbs::CommitCheckpointT& votes, uint64_t now_ms);

/// Makes an export in `folder` with `make`, or beside what this program did not make: `model-2` to
/// `model-99`. Nothing is done again where `is_done`. The folder that it is in. Blocks.
result<std::filesystem::path> export_to(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path&)>& is_done,
    const std::function<status(const std::filesystem::path&)>& make);

/// Makes `latest` in the folder of checkpoints a link to the newest one: a hint for people, which
/// nothing reads by itself and no sync covers. Errors: permission where a person's file has the
/// name; io.
status point_latest(io::file_system& files, const std::filesystem::path& complete);

struct committer_state {
  static inline const char* name = "committer";
  committer_options options;
  std::optional<train::job_plan> whole;  ///< options.plan with all replicas, once it is open
  std::unique_ptr<io::disk> disk;                  ///< once it is open, as are the shares
  std::vector<io::checkpoint::rank_plan> shares;  ///< of all ranks (ARC-3)
  io::checkpoint::caretaker caretaker;
  std::optional<io::folder_identity> folder;  ///< of options.dir (ARC-4)
  kept_votes votes;
  std::multiset<uint64_t> held;  ///< steps, by those who need them: retention leaves them alone
  std::set<std::string> left;  ///< folders that could not be removed, told once each
  uint64_t committed = 0, abandoned = 0;
  uint64_t newest = 0;  ///< step: two may be under way, and the older one be the later to commit
};

committer_actor::behavior_type committer(traced_pointer<committer_actor, committer_state> self,
                                         const train::spawn_record& record, io::storage* storage);

}  // namespace troupe::checkpoint
