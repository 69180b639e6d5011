// Lives out of a file: what a replay is made from.
//
// Everything in it is foreign. The batches verify (trace_file.hpp); what the events say is checked
// here, so that a replay needs to doubt nothing but whether the actor does the same again.
//
// Invariants
//   LVS-1  A life begins with its birth and has no gaps; each thing given is handled before the
//     next is given, but for the last: its handler may have been the end of the process.
//   LVS-2  Every message in it verifies; every part has what its kind needs.
//   LVS-3  A damaged file is refused as a whole: half a life is another life.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/base/result.hpp"
#include "messages/schemas/trace_generated.h"

namespace troupe::replay {

/// The layout of lives that this program writes and reads.
inline constexpr uint32_t life_form = 2;

/// The most events that are read from a file.
inline constexpr uint64_t event_limit = 4'000'000;

/// One thing an actor was given, or its birth, and what came of it.
struct scene {
  std::unique_ptr<fbs::LifeEventT> given;  ///< nullptr: its birth
  int64_t at_ns = 0;
  std::vector<std::unique_ptr<fbs::LifeEventT>> said;
  std::vector<int64_t> readings;
  bool handled = false;
  std::unique_ptr<fbs::LifeEventT> ended;  ///< it ended then; nullptr: it did not
};

/// One actor's life.
struct story {
  std::string path, kind, node, host;
  uint32_t process = 0, pid = 0, number = 0;
  std::unique_ptr<fbs::SpawnRecordT> birth;
  std::vector<scene> scenes;  ///< the first is its birth; message N is in scenes[N]

  /// How many things it was given.
  uint64_t given() const { return scenes.empty() ? 0 : scenes.size() - 1; }
};

/// What a file holds.
struct lives {
  std::vector<story> stories;       ///< in the order of their births
  std::vector<std::string> midway;  ///< actors recorded by `troupe trace record --payloads`
};

/// Reads a file. Errors: not_found, io; bad_data where it is none, is damaged, or tells of a life
/// that cannot have been (LVS-1, LVS-2); version_mismatch; no_memory beyond `most` events.
result<lives> read_lives(const std::filesystem::path& file, uint64_t most = event_limit);

/// As above, of bytes that stand for a file; `name` is what errors call it.
result<lives> read_lives(std::span<const uint8_t> bytes, const std::string& name);

/// The life of the actor of this path, the last where it had several; of the only actor where the
/// path is empty. Errors: not_found, usage, and bad_data for one recorded from the middle of its
/// life.
result<story> choose(lives&& all, const std::string& path);

}  // namespace troupe::replay
