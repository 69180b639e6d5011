// The journal: keeps on the disk what the next head must know of the job (io/journal/journal.hpp),
// and answers once it is there.
//
//   {output}/journal: records, each a message as it travels (messages/any_msg.hpp), of kind 1;
//   of JobMemory and of ClusterMemory the last counts
//
// Messages: JobMemory from the run, ClusterMemory from the coordinator.
//
// Invariants
//   JRA-1  What was answered with Ack is found by recall(), whatever ends the process, until the
//     job has another launch.
//   JRA-2  A journal that cannot be read, or is of no use, keeps no launch from beginning: it is
//     named, and the launch knows nothing of what it held.
//   JRA-3  Where the job has several heads, Ack says that a majority of voters holds it, too
//     (actors/heads/elector.hpp): the head that acts next finds it, whatever became of this disk.
//
// Failure policy: the run goes on without it, and says what is not kept.
#pragma once

#include <filesystem>
#include <map>
#include <optional>

#include "actors/base/traced.hpp"
#include "actors/heads/promises_policy.hpp"
#include "actors/job/job_memory.hpp"
#include "io/base/result.hpp"
#include "io/journal/journal.hpp"
#include "messages/actors.hpp"

namespace troupe::train {

/// The journal of a job's folder, and what it holds.
struct kept_journal {
  io::journal writer;
  std::optional<job_memory> memory = {};  ///< none: nothing was said
  std::optional<fbs::ClusterMemoryT> cluster = {};  ///< the same
  elector_actor elector = {};  ///< none: the job has one head; the journal takes it
};

/// Of a launch that goes on after its head was lost: what is there, made if it is not. Errors: as
/// of io::journal::open and create.
result<kept_journal> recall(io::file_system& files, const std::filesystem::path& output);

/// Of a new launch: an empty one, in the place of what an earlier one left. Errors: as above.
result<kept_journal> begin_journal(io::file_system& files, const std::filesystem::path& output);

/// Of a head that acts in the place of another: one of what a majority held (JRA-3), in the place
/// of what lies there. Errors: as above.
result<kept_journal> begin_journal_from(io::file_system& files,
                                        const std::filesystem::path& output,
                                        const heads::held_records& held);

struct journal_state {
  static inline const char* name = "journal";
  std::optional<io::journal> writer;
  std::map<uint32_t, io::journal_record> newest;  ///< by message: what a compaction keeps
  uint64_t records = 0;
  elector_actor elector;  ///< none: the job has one head
};

journal_actor::behavior_type journal(traced_pointer<journal_actor, journal_state> self,
                                     std::shared_ptr<kept_journal> kept);

}  // namespace troupe::train
