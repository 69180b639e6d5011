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
//
// Failure policy: the run goes on without it, and says what is not kept.
#pragma once

#include <filesystem>
#include <map>
#include <optional>

#include "actors/base/traced.hpp"
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
};

/// Of a launch that goes on after its head was lost: what is there, made if it is not. Errors: as
/// of io::journal::open and create.
result<kept_journal> recall(io::file_system& files, const std::filesystem::path& output);

/// Of a new launch: an empty one, in the place of what an earlier one left. Errors: as above.
result<kept_journal> begin_journal(io::file_system& files, const std::filesystem::path& output);

struct journal_state {
  static inline const char* name = "journal";
  std::optional<io::journal> writer;
  std::map<uint32_t, io::journal_record> newest;  ///< by message: what a compaction keeps
  uint64_t records = 0;
};

journal_actor::behavior_type journal(traced_pointer<journal_actor, journal_state> self,
                                     std::shared_ptr<kept_journal> kept);

}  // namespace troupe::train
