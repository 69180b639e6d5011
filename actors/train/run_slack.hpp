// What slack makes of a run: which clocks the operations of its ranks have, and what the pacer is
// told of steps. For run.cpp alone.
//
// Invariants
//   RSL-1  A rank has clocks of its own in steps at the whole pace alone, without the brake: a
//     budget's pace is of the whole job already (PWR-4).
//   RSL-2  Tables that are not of this epoch, these stages and micro-batches are not taken.
//   RSL-3  Who judges ranks by what they take hears it as it would be at the highest clocks: what
//     is normal for a rank is learned before there is a plan, too, and a replica may be slowed for
//     another that is slow. Forward and backward each, for a plan slows them unlike; never less
//     than the least of its last steps at the highest, for a clock that comes late slows less than
//     planned, and who looked quicker would be slow once the plan is off. In a trial of
//     lower clocks, of which nobody knows yet what they change, that is what each rank took in its
//     last step at the highest, and the step, which is longer, counts as one at a lesser pace:
//     nobody learns from it, and nothing is slow by it.
//   RSL-4  Who has died orders no clocks: without its pacer all ranks have the highest from the
//     next step on, which is said where nobody ended it. A trial's would stay for good.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/train/run.hpp"
#include "messages/step_parts.hpp"

namespace troupe::train {

/// RSL-4
void begin_slack(run_pointer self);

/// All ranks have their part of the model.
void note_controls(run_state& st, const std::vector<msg<fbs::StageReady>>& replies);

/// What a person is told of it. RSL-2
std::vector<todo::say> hear_clocks(run_pointer self, const fbs::JobClocks& m);

/// A step begins, at the pace of run_power::step_pace. RSL-1
void begin_clocks(run_state& st);
/// Of that step; null: the highest clocks.
std::unique_ptr<fbs::StageClocksT> clocks_of(const run_state& st, size_t rank);

/// A step has ended: what the pacer is told where the job takes slack.
void tell_step_made(run_pointer self, uint64_t step, double took_ms,
                    std::span<const msg<fbs::StepDone>> parts,
                    std::span<const std::vector<step_part>> of_ranks);
/// A step has ended; before as_usual() is asked of it. RSL-3
void note_usual(run_state& st, std::span<const msg<fbs::StepDone>> parts);

/// For the monitor, and, of all ranks, for the predictor. RSL-3
msg<fbs::StepDone> as_usual(run_pointer self, const msg<fbs::StepDone>& done);
std::vector<std::vector<step_part>> as_usual(const run_state& st,
                                             std::vector<std::vector<step_part>> of_ranks);
fbs::StepOddity as_usual(const run_state& st, fbs::StepOddity oddity);

void put_slack(const run_state& st, fbs::StepReportT& into);

}  // namespace troupe::train
