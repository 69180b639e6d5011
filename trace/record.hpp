// A record of a trace: what the flight recorder writes and traces are made of.
#pragma once

#include <cstdint>
#include <type_traits>

namespace troupe {

/// What a record is of.
enum class record_kind : uint8_t {
  handled = 1,  ///< an actor handled a message
  work = 2,     ///< something done outside of an actor on its behalf; `type` is a work name
  counter = 3,  ///< what something was at a moment; `type` is a work name, `sender` the value
};

/// Bits of trace_record::flags.
namespace record_flag {
inline constexpr uint8_t request = 1;   ///< the message asks for an answer
inline constexpr uint8_t response = 2;  ///< the message answers a request
inline constexpr uint8_t failed = 4;    ///< the handler ended with an error, or the work failed
inline constexpr uint8_t system = 8;    ///< a message of CAF's own: exits, downs, timers
}  // namespace record_flag

/// One record, 72 bytes: as it stands in the records of a TraceBatch (trace.fbs) and in files.
struct alignas(8) trace_record {
  int64_t begin_ns = 0;  ///< when the handling began, on the actor clock
  int64_t sent_ns = 0;   ///< when the message was sent, on the sender's clock; 0: not told, or work
  uint64_t span = 0;     ///< the span the message opened, or the work's own
  uint64_t parent = 0;   ///< the span that caused it
  uint64_t trace = 0;    ///< trace id, lower half
  uint64_t sender = 0;   ///< the sending actor's key; of work: its number (a step, a micro-batch);
                         ///< of a counter: the bits of its value, a double
  float handling_s = 0;  ///< how long it took
  float mailbox_s = 0;   ///< from its coming into this process to its handling, on one clock
  uint32_t actor = 0;    ///< the receiving actor: the lower half of its key
  uint32_t bytes = 0;    ///< of payload, or moved by the work
  uint16_t type = 0;     ///< message type, or work name
  uint16_t depth = 0;    ///< messages left in the mailbox
  uint16_t sent = 0;     ///< messages made meanwhile
  record_kind kind = record_kind::handled;
  uint8_t flags = 0;  ///< record_flag

  /// From sending to handling, seconds, over both clocks where they differ.
  double waiting_s() const noexcept {
    return sent_ns != 0 ? static_cast<double>(begin_ns - sent_ns) * 1e-9 : mailbox_s;
  }
};
static_assert(sizeof(trace_record) == 72);
static_assert(std::is_trivially_copyable_v<trace_record>);

}  // namespace troupe
