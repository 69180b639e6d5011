// What must hold of a simulated job under a power budget above it (parent_budget.hpp), seen from
// its messages and from what the children of that budget say is in force.
//
// Pure: it is handed what is there, and the time. When a lease ends is counted here a second time,
// from the answers alone: neither the job's word nor the budget's is taken for it.
//
// Invariants that it checks
//   SIM-30  What the children of a power budget may draw is together no more than the budget
//     (PWR-1). Where that has been cut, no more than it was until the last child has heard of it or
//     has fallen by itself; and what is still more than there is then never rises.
//   SIM-31  Half a second after its lease is over a job's cap is its static share at most. A step
//     begins at a pace that its pacer has told last, or at less (PWR-2).
//   SIM-32  No step begins before the job's budget has granted watts to the head that acts, nor
//     while its pacer says that none may (PWR-3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "actors/power/recent_most.hpp"
#include "messages/any_msg.hpp"

namespace troupe::sim {

class parent_watch {
 public:
  /// Within `fall_ns` a child has fallen by itself.
  explicit parent_watch(int64_t fall_ns) : caps_before_(fall_ns) {}

  /// Another head begins: what was granted to the one before is no word for this one.
  void begin();

  /// What is violated; none: nothing is. `sum_mw` is in force, `budget_mw` what there is now.
  std::optional<std::string> in_force(int64_t sum_mw, int64_t budget_mw, int64_t now_ns);

  /// The same of a message of the head's process. `cap_mw` is what the job keeps to now.
  std::optional<std::string> see(const any_msg& m, int64_t cap_mw, int64_t now_ns);

 private:
  std::optional<std::string> step_begins(uint64_t step, uint32_t pace, int64_t cap_mw,
                                         int64_t now_ns);

  power::recent_most caps_before_;
  std::optional<int64_t> budget_mw_;
  int64_t sum_mw_ = 0;

  bool granted_ = false;   ///< watts, to this head
  int64_t until_ns_ = 0;   ///< its lease, at most
  int64_t static_mw_ = 0;  ///< by the last answer
  uint64_t step_ = 0;      ///< that is made; 0: none is
  int64_t word_ns_ = -1;   ///< when the last word of a pace came
  uint32_t last_word_ = 0;
  uint32_t most_word_ = 0;  ///< of it, the one before, and those of the same moment
};

}  // namespace troupe::sim
