// What a power budget makes of a run: at which pace its steps are made, and what is told of its
// machines' watts. For run.cpp alone.
#pragma once

#include <string>
#include <vector>

#include "actors/train/run_commit.hpp"

namespace troupe::train {

/// Whether a power budget above the job may hold it within a step.
bool may_brake(const run_state& st);
/// There is a new crew, or none: tries the path of the brake to each of its stages, which are held
/// as those before were (PWR-4).
void arm_brake(run_pointer self);

/// PWR-3: a run with a budget makes no step before it is told its pace.
void begin_power(run_pointer self);

/// Takes what the pacer says; what a person is told of it. The policy hears of it where that lets
/// no step begin, or lets them begin again. Under a power budget above the job a lesser pace is
/// acknowledged where no step is made that could. The brake goes to all stages at once.
std::vector<std::string> hear_power(run_pointer self, const fbs::JobPower& m);

/// Tells the pacer that a step begins; 0: none is made for now, which is told once.
void tell_pacer(run_pointer self, uint64_t step);
/// Ranks are to be given out anew. Those of before may still end an operation of their step: it
/// counts as made until others are there, or all that go on must have ended theirs (PWR-1).
void tell_ranks_change(run_pointer self);
/// If those of before have ended by now, or are of nodes that count as lost, no step is made.
void end_old_ranks(run_pointer self);
/// A person may have changed the budget, have paused the job or let it go on.
void tell_person(run_pointer self);

/// A step begins, at the pace that is told now.
void begin_paced(run_pointer self, uint64_t step);
/// The job is in another state: time in which nothing but the budget lets no step begin counts.
void note_waits(run_state& st, int64_t now_ns);
/// For so long it held back the rank of the step that waited longest.
void note_held(run_state& st, double longest_ms);

/// A stop. Where the brake holds the step that it waits for, nobody knows for how long: that is
/// said, also where the brake comes after it, and who stops again, or does not save, ends the run
/// without the step.
std::vector<std::string> hear_stop(run_pointer self, const heard::stop& how);

void put_power(const run_state& st, fbs::StepReportT& into);
void put_power(const run_state& st, int64_t now_ns, fbs::RunStatusT& into);

}  // namespace troupe::train
