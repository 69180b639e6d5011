// How much of a job's memory is a budget, and the shape in which a person's swapping job is
// simulated: with as many layers, the same part of its state in memory, and drives that bring what
// a step moves in the time that the job's would take.
//
// The simulated ranks' state is small, so a drive of theirs is slower by as much as their state is
// smaller than the job's. A pipeline is cut as the job's is planned to be; tables, which its first
// and last stage have besides, are another part of a stage's state than in the job, so what a stage
// moves counts as much more, or less, as its own state is smaller than the job's.
//
// Invariants
//   SWJ-1  Nothing of it depends on this machine: where a job leaves open what its machines have,
//     something is assumed, and told.
//   SWJ-2  Of all stages the drives bring what a step moves in the time that the job's would take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/job/plan.hpp"
#include "actors/sim/drives.hpp"
#include "io/base/result.hpp"

namespace troupe::sim {

/// What the process of the most demanding ranks takes with all in memory, bytes.
uint64_t whole_bytes(const train::job_plan& plan, int threads);

/// State of all ranks of each stage, in parameters: the optimizer's rule counts them.
std::vector<double> state_parameters(const train::job_plan& plan);

/// What is assumed of a drive that a job does not describe (swap.rates), bytes a second each way.
inline constexpr double assumed_drive_bytes_s = 2e9;

/// The shape of a swapping job; the drives' rates are the job's own. All in memory where the job
/// has no swap folder.
swap_shape swap_of(const train::job_plan& plan);

/// The same drives for the ranks of a job that is simulated in place of `plan` (SWJ-2).
void scale_drives(swap_shape& shape, const train::job_plan& simulated, const train::job_plan& plan);

/// What drives and memory were taken for, for a person.
std::string swap_text(const config::job& job, const swap_shape& shape);

}  // namespace troupe::sim
