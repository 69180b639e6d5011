// What the run tells the predictor of its steps.
//
// PRD-1, of the run: it waits for nothing of the predictor, and tells nobody else anything because
// of it.
// PRD-5, of the run: one message at most is under way: the next step is told once this one was
// taken. The others are counted, and no message holds more than some ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/train/run.hpp"
#include "messages/step_parts.hpp"

namespace troupe::train {

/// The step within which a person changes a setting, and the one that has it first.
inline constexpr uint32_t steps_after_set = 2;

/// What a step took. `of_ranks`: its parts by rank, settled; `oddity` as ranks have it.
void tell_times(run_pointer self, uint64_t step, double took_ms, fbs::StepOddity oddity,
                std::span<const std::vector<step_part>> of_ranks);

/// What sets a step apart: what does so on any of its ranks.
fbs::StepOddity oddity_of_step(std::span<const msg<fbs::StepDone>> done,
                               std::span<const std::vector<step_part>> of_ranks);

}  // namespace troupe::train
