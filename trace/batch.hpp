// Records as TraceBatch messages and back: what goes over the network and stands in files.
//
// Invariants
//   BAT-1  No batch made here is beyond max_message_bytes; only a single message that is too large
//     itself is left out, and counted as dropped.
//   BAT-2  Records read from a batch are foreign: their number, kinds and floats are checked first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/base/result.hpp"
#include "messages/msg.hpp"
#include "messages/schemas/trace_generated.h"
#include "trace/record.hpp"

namespace troupe::trace {

/// What a batch says of its process; the same fields as TraceBatch.
struct batch_head {
  uint32_t process = 0;
  std::string node, host;
  uint32_t pid = 0;
  int64_t offset_ns = 0;
  int64_t bound_ns = -1;
  uint64_t subscription = 0;
  uint64_t lost = 0;
  uint64_t dropped = 0;
  int64_t unix_ns = 0;  ///< what to add to its clock to have Unix time; 0: unknown
};

/// What it carries.
struct batch_content {
  std::vector<trace_record> records;
  std::vector<std::unique_ptr<fbs::TracedActorT>> actors;
  std::vector<std::string> works;
  std::vector<std::unique_ptr<fbs::TracedMessageT>> messages;
};

/// What to add to the actor clock to have Unix time: batch_head::unix_ns of this host.
int64_t unix_minus_steady_ns();

/// At least one batch, in order; actors and names of work are in the first. Their sequence is left
/// at 0.
std::vector<fbs::TraceBatchT> make_batches(const batch_head& head, batch_content content);

/// Whether a foreign record is one: its kind and its times are possible (BAT-2).
bool is_sound(const trace_record& r);

/// The records of a batch (BAT-2). Errors: bad_data.
result<std::vector<trace_record>> records_of(const fbs::TraceBatch& batch);

}  // namespace troupe::trace
