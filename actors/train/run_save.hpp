// The run's part of checkpoints: begins them between two steps, lets training go on, and sees each
// through its votes to the commit (archive.hpp has the whole protocol).
//
// Invariants
//   RSV-1  A checkpoint is of the state between two steps: SaveCheckpoint reaches every rank before
//     the next RunStep does.
//   RSV-2  Each one that begins ends as exactly one of: committed, failed. A failed one is told as
//     a warning and leaves nothing behind.
//   RSV-3  The run names as its checkpoint the newest that is committed.
//   RSV-4  The last one is tried again, in the second tier and in the first, as long as
//     checkpoint.room_wait_s; what it waits for is said once, and when that is over.
//   RSV-5  A run that went on from what no start takes by itself (RSM-4) saves that state as its
//     own, even where no step was left to make.
#pragma once

#include <functional>

#include "actors/train/run_start.hpp"

namespace troupe::train {

/// Told how a checkpoint ended.
using save_done = std::function<void(const status&)>;

/// Begins a checkpoint of the state as it is; returns at once.
void begin_save(run_pointer self, save_done done);

/// After a step: begins a checkpoint if one is due or asked for and there is room; else does what
/// checkpoint.when_busy says. `go_on` is called when the next step may begin: mostly at once.
void save_if_due(run_pointer self, std::function<void()> go_on);

/// Calls `then` once no checkpoint is under way.
void settle_saves(run_pointer self, std::function<void()> then);

/// Saves the state as it is unless that is done, with patience (RSV-4); `then` is told how it
/// ended.
void save_last(run_pointer self, std::function<void(const status&)> then);

/// Ends the pause before the next try, if there is one.
void retry_last(run_pointer self);

/// Waits for the copy of the last checkpoint into the second tier, if there is one, as long as
/// checkpoint.second.wait_s says; what fails is a warning, and `then` follows in any case.
void settle_copies(run_pointer self, std::function<void()> then);

/// Ends that wait, if there is one.
void leave_copies(run_pointer self);

/// Writes the model of the last checkpoint as a Hugging Face folder, if the job wants one; `then`
/// follows in any case.
void export_model(run_pointer self, std::function<void()> then);

}  // namespace troupe::train
