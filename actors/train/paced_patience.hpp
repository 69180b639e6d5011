// How long an answer may take of ranks that work at a pace: a rank that is held back, and one that
// waits for it, are not stuck.
#pragma once

#include <chrono>
#include <optional>

#include "actors/base/ask.hpp"
#include "actors/train/work_pace_policy.hpp"

namespace troupe::train {

/// In place of the contract's timeout. None: that holds, since the pace is full speed.
template <class Handle, class Question, class Self>
std::optional<std::chrono::milliseconds> paced_patience(Self* self, work_pace pace) {
  if (pace >= work_pace{}) return {};
  const auto usual = self->timeouts().of(contract_of<Handle, Question>());
  return usual * work_pace::whole / pace.of_1024;
}

}  // namespace troupe::train
