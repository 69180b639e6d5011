// Whether a job fits a machine: memory, GPUs, threads, batches. `troupe up` and `troupe config
// check` ask before anything is allocated, `troupe plan` for its last line.
//
// Pure: a function of the plan and of what the machine has.
//
// Invariants
//   RDY-1  Of a job whose nodes are elsewhere nothing is judged by what this machine has.
//   RDY-2  What is refused for its memory would not have fitted: counted is what is allocated for
//     certain, against all that the machine or its control group has.
#pragma once

#include "actors/train/finding.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/memory_estimate.hpp"

namespace troupe::train {

/// Threads of one machine's workers, at most: so many a core, and never less than the floor.
constexpr int64_t threads_per_core_limit = 8;
constexpr int64_t threads_floor = 64;

/// bad_config unless `has` bytes are enough for `needed`; the hint says which settings would make
/// the largest stage fit into `stage_limit`. `what` needs them, and they are `whose`.
status enough_memory(const job_plan& plan, std::string_view what, uint64_t needed, uint64_t has,
                     std::string_view whose, uint64_t stage_limit);

/// Whether the memory of this machine, or of its GPUs, is enough for all ranks of a local job
/// (RDY-1, RDY-2).
status fits_memory(const job_plan& plan, const machine& m);

/// All of it.
findings judge(const job_plan& plan, const machine& m);

}  // namespace troupe::train
