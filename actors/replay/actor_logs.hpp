// Actor logs out of a file: what a replay is made from.
//
// Everything in it is foreign. The batches verify (trace_file.hpp); what the events say is checked
// here, so that a replay needs to doubt nothing but whether the actor does the same again.
//
// Invariants
//   ALG-1  A log begins with its spawn record and has no gaps; each thing given is handled before
//     the next is given, but for the last: its handler may have been the end of the process.
//   ALG-2  Every message in it verifies; every part has what its kind needs.
//   ALG-3  A damaged file is refused as a whole: half a log is another log.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "messages/schemas/trace_generated.h"

namespace troupe::replay {

/// The layout of actor logs that this program writes and reads.
inline constexpr uint32_t actor_log_form = 2;

/// The most events that are read from a file.
inline constexpr uint64_t event_limit = 4'000'000;

/// One thing an actor was given, or its spawn, and what came of it.
struct turn {
  std::unique_ptr<fbs::ActorLogEventT> given;  ///< nullptr: its spawn
  int64_t at_ns = 0;
  std::vector<std::unique_ptr<fbs::ActorLogEventT>> said;
  std::vector<int64_t> readings;
  bool handled = false;
  std::unique_ptr<fbs::ActorLogEventT> ended;  ///< it ended then; nullptr: it did not
};

/// One actor's log.
struct logged_actor {
  std::string path, kind, node, host;
  uint32_t process = 0, pid = 0, number = 0;
  std::unique_ptr<fbs::SpawnRecordT> record;
  std::vector<turn> turns;  ///< the first is its spawn; message N is in turns[N]

  /// How many things it was given.
  uint64_t given() const { return turns.empty() ? 0 : turns.size() - 1; }
};

/// What a file holds.
struct actor_logs {
  std::vector<logged_actor> actors;  ///< in the order in which they were spawned
  std::vector<std::string> midway;   ///< actors recorded by `troupe trace record --payloads`
};

/// More events than are replayed.
inline constexpr error_kind<uint64_t> too_many_events{"too_many_events", errc::no_memory,
                                                      "more than {} events"};

/// Reads a file. Errors: not_found, io; bad_data where it is none, is damaged, or tells of what
/// cannot have been (ALG-1, ALG-2); version_mismatch; no_memory beyond `most` events.
result<actor_logs> read_actor_logs(const std::filesystem::path& file, uint64_t most = event_limit);

/// The log of the actor of this path, the last where it had several; of the only actor where the
/// path is empty. Errors: not_found, usage, and bad_data for one recorded from the middle of its
/// log.
result<logged_actor> choose(actor_logs&& all, const std::string& path);

}  // namespace troupe::replay
