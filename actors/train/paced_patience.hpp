// How long an answer may take of ranks that work at a pace: a rank that is held back, and one that
// waits for it, are not stuck.
//
// A brake comes when the question is asked already, and nobody knows for how long. Where one may,
// an answer may take as long as at the least pace, as groups of collectives wait for their members
// (engine.cpp).
#pragma once

#include <chrono>
#include <optional>

#include "actors/base/ask.hpp"
#include "actors/train/work_pace_policy.hpp"

namespace troupe::train {

/// In place of the contract's timeout. None: that holds, since the pace is full speed and no brake
/// can come.
template <class Handle, class Question, class Self>
std::optional<std::chrono::milliseconds> paced_patience(Self* self, work_pace pace,
                                                        bool may_brake) {
  if (may_brake) pace = work_pace_policy::least_pace;
  if (pace >= work_pace{}) return {};
  const auto usual = self->timeouts().of(contract_of<Handle, Question>());
  return usual * work_pace::whole / pace.of_1024;
}

}  // namespace troupe::train
