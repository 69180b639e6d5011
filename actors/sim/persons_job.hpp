// A person's own job in simulation: its nodes, workers, layout, micro-batches, checkpoint policy,
// health and recovery, and how long its steps take. What the job computes is not there: ranks have
// a small state, made-up tokens and losses that follow from the step's number.
//
// How long an operation takes is planned: the work of each stage (actors/train/memory_estimate.hpp)
// over what a worker is said to do in a second. So the same file, options and seed give the same
// events, on any machine.
//
// Invariants
//   PJB-1  Every key of a configuration is simulated, changes nothing that a simulation has, or is
//     said not to be simulated, with a reason.
//   PJB-2  A step takes each stage as long as its planned work does at the given pace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/job/plan.hpp"
#include "actors/sim/simulation.hpp"
#include "io/base/result.hpp"
#include "io/config/load.hpp"

namespace troupe::sim {

/// What a worker does in a second.
struct worker_pace {
  double flops_s = 0;
  double updates_s = 0;      ///< parameters of the optimizer's rule
  double saved_bytes_s = 0;  ///< of its share of a checkpoint
};

/// What is assumed of a worker where nobody says more: of a host's processors, or of a GPU.
worker_pace assumed_pace(const config::job& job);

/// Steps of a job that are simulated where nobody says how many: a long job repeats itself.
inline constexpr int64_t usual_steps = 200;

/// The options of a job's simulation, of `steps` steps (0: its own, at most usual_steps). Errors:
/// bad_config where it is larger than a simulation can be, usage where its steps would take a year
/// of virtual time.
result<simulation_options> options_of(const train::job_plan& plan, const worker_pace& pace,
                                      int64_t steps);

/// Keys that were set and are not simulated, and why.
struct left_out {
  std::vector<std::string> keys;
  std::string why;
};

/// Of a job as it was read (PJB-1).
std::vector<left_out> not_simulated(const config::loaded& from);

/// Why a key is not simulated; empty: it is, or changes nothing that a simulation has.
std::string_view why_left_out(std::string_view key);

/// Gives the job of a simulated cluster what of a person's job can be simulated.
void be_of_person(config::job& simulated, const config::job& person);

}  // namespace troupe::sim
