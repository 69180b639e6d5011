// A job's side of being shifted against other jobs of its budget (phase_policy.hpp): how its steps
// beat, which it reports, and which orders to hold one of them back it follows.
//
// Pure: it is told steps and orders, and handed the time (nanoseconds of one monotonic clock).
//
// Invariants
//   SPH-1  Steps beat where six of the last eight took as long as their median, within 5 %. One
//     that was held back says nothing of that, nor do those of ranks that were given out before.
//   SPH-2  An order is followed once: one that is as old as the last, or older, by the life of the
//     budget and its number, is not, whether that was followed or refused.
//   SPH-3  No order holds a step back by as much as a step takes, nor one while steps do not beat;
//     none that answers a report of long ago; and whatever is ordered, of steps_between steps one
//     is held back at most.
//   SPH-4  What was ordered is void once no step is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "actors/power/phase_policy.hpp"

namespace troupe::power {

class step_phase_policy {
 public:
  static constexpr size_t steps_kept = 8, steps_alike = 6;
  static constexpr uint64_t steps_between = 16;
  static constexpr int64_t late_answer_ns = 5'000'000'000;

  /// A step begins, or goes on; 0: none is made. `epoch`: of its ranks. `late_ns`: its first
  /// operations are held back by so much.
  void steps(uint64_t step, uint32_t epoch, int64_t late_ns, int64_t now_ns);
  /// None: they do not beat. SPH-1
  std::optional<step_beat> beat(int64_t now_ns) const;

  /// An order in an answer to the report that was sent then. `life`: of the budget. Whether it is
  /// followed.
  bool hear(uint64_t life, const phase_order& said, int64_t sent_ns, int64_t now_ns);
  /// What the next step is to be held back by: the run is told it now, once. 0: nothing.
  int64_t take() { return std::exchange(pending_ns_, 0); }
  void drop() { pending_ns_ = 0; }

 private:
  int64_t median_ns() const;

  uint64_t step_ = 0;  ///< 0: none is made
  uint32_t epoch_ = 0;
  int64_t began_ns_ = 0, late_ns_ = 0;  ///< of the step
  std::deque<int64_t> took_ns_;
  std::pair<uint64_t, uint64_t> last_{0, 0};  ///< life and number
  uint64_t since_held_ = steps_between;       ///< steps
  int64_t pending_ns_ = 0;
};

}  // namespace troupe::power
