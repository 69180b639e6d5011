// Recording actor logs: every actor of this process whose path fits is written down from its spawn.
//
// `troupe up --record-actor 'stage/*'` makes each process write <output>/actors-<node>.trace: a
// trace file (trace/trace_file.hpp) whose batches hold ActorLogEvents. Three decisions:
//   - From the spawn, by a flag of the start, and not, as `troupe trace record` does, from when a
//     person comes: what an actor makes of a message depends on all messages before it.
//   - Into a file of the process itself, not over the network: nothing may be missing, so nothing
//     may be dropped for want of a viewer's credit.
//   - By the actor itself, into the page cache, before it handles the message: when a handler
//     crashes the process, the message that did it is in the file. It is a tool for debugging, off
//     unless asked for; only then may an actor touch a file.
//
// The file's version stays 1: batches only gained a field, and SpawnRecord has a version of its
// own.
//
// Invariants
//   REC-L1  A log in the file has no gaps: where something cannot be written, nothing more is, and
//     that is said.
//   REC-L2  What an actor is given is in the file before it handles it.
//   REC-L3  A file is at most `limit_bytes` long.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "actors/base/runtime.hpp"

namespace troupe::replay {

struct recording_options {
  std::string actors;  ///< paths, a pattern with * and ?
  std::filesystem::path file;
  std::string node, host;
  uint64_t limit_bytes = uint64_t{1} << 30;
};

/// Records as long as it lives; the last such object wins. Made before the actors are.
class recording {
 public:
  recording(std::shared_ptr<runtime> in, recording_options options);
  ~recording();
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;

 private:
  class book;
  class entry;
  std::shared_ptr<runtime> in_;
  std::shared_ptr<book> book_;
};

/// Where a node of this name records, given the folder of its black boxes; `process` counts those
/// that a launch has started for it.
std::filesystem::path recording_path(const std::filesystem::path& folder, const std::string& node,
                                     int process = 1);

}  // namespace troupe::replay
