// The start-up phases of a run, in order; see run.hpp.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/train/run.hpp"

namespace troupe::train {

using run_pointer = traced_pointer<run_actor, run_state>;

/// Takes the stages from empty to ready; then `ready()`, or `failed(error)` once.
void start_up(run_pointer self, std::function<void()> ready,
              std::function<void(const error&)> failed);

/// A new phase of the run, on the board.
void enter(run_pointer self, const char* phase);

/// For gather(): every stage by its path, and what is to come from it.
inline auto each_stage(std::string what) {
  return [what = std::move(what)](size_t rank) {
    return awaited{fmt::format("stage/{}", rank), what};
  };
}

/// The context of a message that the run itself starts.
message_context context(run_pointer self);

/// Tells the person.
void say(run_pointer self, std::string text, fbs::NoticeLevel level = fbs::NoticeLevel::info);

}  // namespace troupe::train
