// The run's answers to persons: each is given once what it promises is in the journal (RUN-5).
// For run.cpp alone; its invariants stand in run.hpp.
#pragma once

#include "actors/train/run.hpp"

namespace troupe::train {

/// Tells the journal what has been said and still holds, if that is not what it was told last.
void remember(run_pointer self);

/// Answers who asked, now or once the journal has all that it was told.
void answer(run_pointer self, const todo::answer& what);

}  // namespace troupe::train
