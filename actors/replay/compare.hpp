// What an actor said the first time and what it says now: where do they differ?
//
// Compared are the kind, the type, whom it went to, the epoch, and every field of the message by
// its schema. Not compared is what names a process or a moment and not a decision: the header's
// trace, spans, sender and time, and the few fields of not_compared().
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "messages/schemas/trace_generated.h"

namespace troupe::replay {

/// One difference in what came of a message.
struct difference {
  uint64_t message = 0;            ///< which one was handled, from 1; 0: the spawn
  std::string given;               ///< "RunStep"
  std::string said;                ///< "the answer StepDone"
  std::string field;               ///< "loss_sum", "groups[1].size"; empty: the whole of it
  std::string recorded, replayed;  ///< JSON or words; empty: nothing
};

/// "the answer StepDone", "RunOp to worker/0".
std::string words_of(const fbs::ActorLogEventT& e);

using outputs = std::vector<std::unique_ptr<fbs::ActorLogEventT>>;

/// Which was which: the index in `replayed` by that in `recorded`.
struct comparison {
  std::vector<difference> differences;          ///< `message` and `given` are left empty
  std::vector<std::pair<size_t, size_t>> same;  ///< of the same kind, type and addressee
  std::set<std::string> left_out;               ///< fields of not_compared() that differ
};

/// Peers must bear the same names on both sides.
comparison compare(const outputs& recorded, const outputs& replayed);

/// "Observe.pid", ...: fields that name the process.
const std::set<std::string>& not_compared();

}  // namespace troupe::replay
