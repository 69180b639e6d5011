// The run's commits: the last word about a checkpoint, said by the head that acts alone (RUN-6).
// For run.cpp alone; its invariants stand in run.hpp.
#pragma once

#include <functional>
#include <string>

#include "actors/train/run.hpp"

namespace troupe::train {

/// Tells the policy of an event, and does what it decides then (RUN-1); run.cpp has it.
void hear(run_pointer self, job_event event);

/// Tells a person; run.cpp has it.
void say(run_pointer self, const todo::say& what);

/// Has the committer commit a checkpoint, by the votes of all ranks.
void commit(run_pointer self, const todo::commit& order);

/// Has the committer give up a checkpoint whose files ranks will update (JOB-22), once nobody reads
/// it; then calls `then`, unless the job is not at that step any more (RUN-4).
void give_up(run_pointer self, const std::string& checkpoint, std::function<void()> then);
/// It is time to ask for what could not be given up before.
void ask_again(run_pointer self);

/// Has the committer write a loss into a checkpoint. Where that cannot be, a person is told.
void amend(run_pointer self, const todo::amend& order);

/// Calls `then` once no loss is on its way into a checkpoint: before, that would be copied without
/// it, or the end would take the committer away.
void behind_amendments(run_pointer self, std::function<void()> then);

/// What the committer and the replicator are told.
void abandon(run_pointer self, const todo::abandon& order);
void copy(run_pointer self, const todo::copy& order);
void hold(run_pointer self, const todo::hold& order);

/// What else the committer and the replicator are asked once, each answered to the policy.
void reopen_folder(run_pointer self);
void export_model(run_pointer self, const todo::export_model& order);
void finish_copies(run_pointer self, const todo::finish_copies& order);

}  // namespace troupe::train
