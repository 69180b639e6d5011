// What is due, against what is under way.
#include "actors/train/pace_policy.hpp"

namespace troupe::train {

pace_policy::verdict pace_policy::at_step_end(uint64_t step, int64_t every, config::when_busy how,
                                              bool asked) {
  const bool due = every > 0 && step % static_cast<uint64_t>(every) == 0;
  if (!due && !asked && !postponed_) return verdict::none;
  if (has_room()) {
    postponed_ = false;
    return verdict::begin;
  }
  if (asked || how == config::when_busy::block) return verdict::wait;  // PAC-2
  if (how == config::when_busy::stretch) {
    postponed_ = true;
    return verdict::postpone;
  }
  ++skipped_;  // PAC-1
  return verdict::skip;
}

}  // namespace troupe::train
