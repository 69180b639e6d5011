// One fault that a job went through, from its first sign to the step that followed: what
// incidents.jsonl, the status and `troupe health` say of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace troupe::health {

struct incident {
  uint64_t number = 0;  ///< in the output folder, from 1
  std::string finding;  ///< its stable name, as dead_process
  std::string node;     ///< whose fault it was; empty: nobody knows
  std::string what;     ///< one sentence for a person
  uint32_t epoch_from = 0, epoch_to = 0;
  uint64_t fell_after_step = 0;     ///< the last that was finished
  uint64_t resumed_after_step = 0;  ///< the one whose state was restored
  // By the clock of who tells; 0: has not come.
  int64_t fault_ns = 0;  ///< the last sign of life before it
  int64_t noticed_ns = 0, named_ns = 0;
  int64_t back_ns = 0;  ///< steps go on, or the job has ended
  size_t rule = 0;          ///< that was applied last, from 1; 0: none, or none yet
  std::string action;       ///< what that rule does
  int64_t times_left = -1;  ///< how often it may be applied again; -1: any number
  std::string done;     ///< what was done, one sentence for a person

  /// Since the fault, in seconds; -1 where it has not come.
  double after_s(int64_t then_ns) const {
    return then_ns == 0 ? -1 : static_cast<double>(std::max<int64_t>(0, then_ns - fault_ns)) / 1e9;
  }
};

}  // namespace troupe::health
