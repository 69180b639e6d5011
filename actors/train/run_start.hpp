// The start-up phases of a run, in order; see run.hpp.
#pragma once

#include <functional>

#include "actors/train/run.hpp"

namespace troupe::train {

using run_pointer = run_actor::stateful_pointer<run_state>;

/// Takes the stages from empty to ready; then `ready()`, or `failed(error)` once.
void start_up(run_pointer self, std::function<void()> ready,
              std::function<void(const error&)> failed);

/// Tells the person.
void say(run_pointer self, std::string text, fbs::NoticeLevel level = fbs::NoticeLevel::info);

}  // namespace troupe::train
