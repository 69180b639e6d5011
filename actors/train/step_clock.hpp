// Where a rank's time goes in a step: a part for each kind of operation (messages/step_parts.hpp).
//
// The engine's streams tell when an operation begins and ends on them; what lies between two
// operations of the device's compute stream is what the later one was waited for. So the parts of
// that stream add up to the step, and everything else overlaps with them.
//
// Invariants
//   STM-1  What ends after a step was reported is in the next one's parts: nothing is lost, nothing
//     is counted twice.
//   STM-2  busy_ms + waited_ms over the kinds of the compute stream is the time from begin_step()
//     to the end of the last operation on it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "messages/operations.hpp"
#include "messages/step_parts.hpp"

namespace troupe::train {

/// Adds up one rank's parts. From any thread; each stream tells its own in order, by its own clock
/// (gpu::stream::stamp): nothing is compared between streams.
class step_clock {
 public:
  void begin_step(double now_ms);
  void began(pipeline_op kind, double now_ms);
  void ended(pipeline_op kind, double now_ms, uint64_t work);
  /// Within an operation on the same stream nothing could be done until something of this kind was
  /// there: that is no work of the operation.
  void held_up(pipeline_op kind, double ms);
  /// Within an operation on the same stream this was done, which is none of its work.
  void did_within(pipeline_op kind, double ms, uint64_t work);

  /// The parts since the last call, in the table's order, without those that are nothing.
  std::vector<step_part> take();
  /// Since it was made: of operations that the device works for, without what held them up.
  uint64_t computed_us() const;

 private:
  struct lane {
    double idle_since_ms = 0;
    double began_ms = 0;
    double held_up_ms = 0;
    int under_way = 0;  ///< some kinds are on two streams: rows of a table beside its groups
  };
  lane& lane_of(pipeline_op kind) { return lanes_[static_cast<size_t>(facts_of(kind).stream)]; }

  mutable std::mutex mutex_;
  std::array<lane, static_cast<size_t>(op_stream::count)> lanes_;
  step_part_table parts_;
  double computed_ms_ = 0;
};

}  // namespace troupe::train
