// The critical path of a step: the one chain of handlings, waits, device work and transfers that,
// link by link, released the end of the step. Shortening anything else does not make the step
// shorter.
//
// How: backwards from the end of the step. Each thing on the path was released by whatever came
// last of all it needed (last arrival; Yang and Miller, "Critical Path Analysis for the Execution
// of Parallel and Distributed Programs", 1988):
//   a handling    by the sending of its message, which lies in another handling (or, where an actor
//                 reported finished work, by the end of that work);
//   device work   by its RunOp, the device's work before it, or the transfer it needs;
//   a transfer    by its other end, or by the work that made what it moves;
//   a collective  by the member that came last;
//   an operation that a power budget held back  by that, since it could have begun.
// What lies between release and begin is a wait: on the way between two processes, in a mailbox, or
// of an idle device.
//
// Invariants
//   CP-1  The segments cover the step without gap or overlap: their lengths add up to its length to
//     the nanosecond, whatever the records say.
//   CP-2  What no record explains is a segment of kind idle that says so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"
#include "trace/timeline.hpp"

namespace troupe::trace {

enum class segment_kind : uint8_t {
  handling,  ///< an actor handled a message
  way,       ///< a message was on its way into another process
  mailbox,   ///< a message lay in a mailbox
  device,    ///< a device computed
  transfer,  ///< bytes moved between ranks
  file,      ///< bytes moved to or from a disk
  idle,      ///< nothing that was recorded went on
  power,     ///< an operation could have begun, and a power budget held it back
};
inline constexpr size_t segment_kinds = 8;

/// "handling", "way", "mailbox", "device", "transfer", "file", "idle", "power".
std::string_view to_string(segment_kind kind) noexcept;

/// What kind of work a name stands for: "send_activation" a transfer, "capture" a file,
/// "held_by_pace" power, "forward" a device's.
segment_kind kind_of_work(std::string_view name) noexcept;

/// One link of the path.
struct path_segment {
  segment_kind kind = segment_kind::idle;
  int64_t begin_ns = 0, end_ns = 0;  ///< coordinator's clock
  uint32_t actor = nothing;          ///< index: who handled, whose mailbox, whose device
  uint32_t event = nothing;          ///< index: the record this is (part of), or that it precedes
  std::string what;                  ///< "RunOp", "forward"; of idle: what it waited for, in words
  int64_t number = -1;               ///< of work: its micro-batch or step, else -1
  std::string blame;                 ///< of mailbox: what the actor did meanwhile; may be empty

  int64_t took_ns() const noexcept { return end_ns - begin_ns; }
};

/// A stage that could not go on before a neighbour's tensor was announced.
struct path_wait {
  uint32_t stage = nothing;  ///< index of the actor that waited
  uint32_t whom = nothing;   ///< index of the neighbour
  bool gradient = false;     ///< for a gradient, else an activation
  int64_t micro_batch = -1;  ///< -1: unknown
  int64_t from_ns = 0, until_ns = 0;
  uint32_t doer = nothing;  ///< index: who did what took longest of the path meanwhile
  std::string doing;        ///< "forward", "in the mailbox ..."
  int64_t doing_ns = 0;
};

struct critical_path {
  uint64_t step = 0;
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<path_segment> segments;  ///< in the order of time (CP-1)
  std::vector<path_wait> waits;        ///< in the order of time

  int64_t took_ns() const noexcept { return end_ns - begin_ns; }
};

/// Errors: not_found where the trace has no such step; says which it has.
result<critical_path> critical_path_of(const timeline& t, uint64_t step);

/// The slowest step of a trace. Errors: not_found where it has none.
result<uint64_t> slowest_step(const timeline& t);

/// Words and numbers for a person, lines ending with '\n'; the `most` largest groups of segments.
std::string path_text(const timeline& t, const critical_path& p, int columns, size_t most);

/// One JSON object without a line end: {"type":"critical_path","step":...,"kinds":[...],
/// "top":[...],"waits":[...],"segments":[...]}.
std::string path_json(const timeline& t, const critical_path& p);

}  // namespace troupe::trace
