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
#include "io/base/error_kind.hpp"

namespace troupe::train {

/// Threads of one machine's workers, at most: so many a core, and never less than the floor.
constexpr int64_t threads_per_core_limit = 8;
constexpr int64_t threads_floor = 64;

/// What a machine lacks for a job: memory (what needs how much, what there is, whose, what to do),
/// cores, GPUs.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view, std::string_view,
                            std::string_view>
    memory_lacking{"memory_lacking", errc::bad_config, "{0} needs {1}, and there are {2} ({3})",
                   "{4}"};
inline constexpr error_kind<int64_t, int64_t, int64_t, int64_t, int64_t> cores_lacking{
    "cores_lacking", errc::bad_config,
    "{} threads for each of {} workers are {}, expected at most {} on the {} cores of this "
    "machine",
    "0 shares the cores among the workers"};
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> copies_lacking{
    "copies_lacking", errc::bad_config,
    "copies in memory of node {} need {}: two generations of its ranks' shares and of those that "
    "they keep; expected at most {}",
    "raise checkpoint.memory.bytes, or set checkpoint.memory.every = 0"};
inline constexpr error_kind<std::string_view, std::string_view> gpus_lacking{
    "gpus_lacking", errc::unavailable, "cluster.device is cuda: {0}", "{1}"};

/// What a hint is made for: the bytes of a stage, and those of a process of the host's memory, 0
/// where swapping is no way out.
struct memory_limits {
  uint64_t stage = 0, process = 0;
};

/// memory_lacking unless `has` bytes are enough for `needed`; the hint says which settings would
/// make the job fit into `limits`, swapping among them. `what` needs them, and they are `whose`.
status enough_memory(const job_plan& plan, std::string_view what, uint64_t needed, uint64_t has,
                     std::string_view whose, const memory_limits& limits);

/// Says which GPU the plan's ranks will be on, at the least: of a local job by this machine's, of
/// another by what it says of its nodes' (cluster.device, swap.device_bytes).
void place_on_gpus(job_plan& plan, const machine& m);

/// What each process of a local job may have of this machine's memory, the launcher's own left out;
/// 0 where that is not known, or ranks compute on GPUs that the plan is not placed on.
uint64_t process_limit(const job_plan& plan, const machine& m);

/// Whether the memory of this machine, or of its GPUs, is enough for all ranks of a local job
/// (RDY-1, RDY-2).
status fits_memory(const job_plan& plan, const machine& m);

/// All of it.
findings judge(const job_plan& plan, const machine& m);

}  // namespace troupe::train
