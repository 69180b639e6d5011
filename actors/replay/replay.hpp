// Replaying an actor log: a fresh actor is given what the recorded one was given, in order, on a
// virtual clock that shows the recorded times; what it says is compared with what was said.
//
// It runs in a sim::world with one real actor. All whom it speaks with are stubs that say
// nothing: answers, ticks and news come from the recording. So the actor's own code runs, down to
// the times it reads, and nothing else does.
//
// What can be replayed is what follows from its spawn record and its messages: coordinator, run,
// stage, swapper, loader (where its data is), predictor (unless it began with more times than a
// recording has room for), and the pacer of a job that takes no slack. A worker's answers come from
// its device and from other ranks over the data plane, a node's from the
// operating system's network: these are refused.
//
// Invariants
//   RPL-1  Nothing but the recording reaches the actor: neither its own timers nor the timeouts of
//     its requests, which are in the recording where they came true.
//   RPL-2  A difference does not end the replay: what follows is told, too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actors/replay/actor_logs.hpp"
#include "actors/replay/compare.hpp"

namespace troupe::replay {

struct replay_options {
  /// Called in the actor's turn right before it handles message `n`, from 1.
  std::function<void(uint64_t n)> before;
};

/// What came of it.
struct replay_result {
  std::string actor;
  uint64_t given = 0;     ///< messages and news it handled
  uint64_t recorded = 0;  ///< what it said then
  uint64_t replayed = 0;  ///< what it said now
  std::vector<difference> differences;
  std::vector<std::string> not_compared;  ///< fields that name the process and differ
  std::vector<std::string> remarks;       ///< for a person
};

/// Errors: unavailable for an actor that cannot be replayed, or whose data is not here; bad_data;
/// bad_config where its configuration does not stand here.
result<replay_result> replay(const logged_actor& log, const replay_options& options = {});

}  // namespace troupe::replay
