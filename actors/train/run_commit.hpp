// The run's commits: the last word about a checkpoint, said by the head that acts alone (RUN-6).
// For run.cpp alone; its invariants stand in run.hpp.
#pragma once

#include "actors/train/run.hpp"

namespace troupe::train {

/// Tells the policy of an event, and does what it decides then (RUN-1); run.cpp has it.
void hear(run_pointer self, job_event event);

/// Has the committer commit a checkpoint, by the votes of all ranks.
void commit(run_pointer self, const todo::commit& order);

}  // namespace troupe::train
