// The run's commits: the last word about a checkpoint, said by the head that acts alone (RUN-6).
// For run.cpp alone; its invariants stand in run.hpp.
#pragma once

#include "actors/train/run.hpp"

namespace troupe::train {

/// Tells the policy of an event, and does what it decides then (RUN-1); run.cpp has it.
void hear(run_pointer self, job_event event);

/// Has the committer commit a checkpoint, by the votes of all ranks.
void commit(run_pointer self, const todo::commit& order);

/// What else the committer and the replicator are asked once, each answered to the policy.
void reopen_folder(run_pointer self);
void export_model(run_pointer self, const todo::export_model& order);
void finish_copies(run_pointer self, const todo::finish_copies& order);

}  // namespace troupe::train
