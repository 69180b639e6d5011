// A node's voter: promises epochs to heads, and holds what they decided for the next one.
//
// Messages: PromiseEpoch, HoldRecord, by way of its node, which has no head or follows the one that
// asks (NOD-8). Each is answered once it is on the disk (vote_store.hpp).
//
// Failure policy: a vote that cannot be kept is answered with an error, and counts for nobody; its
// node goes on. If the actor ends, its node does.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "actors/base/traced.hpp"
#include "actors/heads/vote_store.hpp"
#include "messages/actors.hpp"

namespace troupe::heads {

struct voter_options {
  std::string name;              ///< the node's
  std::filesystem::path output;  ///< the job's folder on this machine
  io::file_system* files = &io::local_files();
};

struct voter_state {
  static inline const char* name = "voter";
  voter_options options;
  std::optional<vote_store> votes;  ///< none: its file cannot be read
  std::optional<error> broken;      ///< why
};

voter_actor::behavior_type voter(traced_pointer<voter_actor, voter_state> self,
                                 voter_options options);

}  // namespace troupe::heads
