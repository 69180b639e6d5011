// What [swap] comes to for all ranks of a job: their options with what lives where, whether
// swap.host_bytes is enough for each, also with fewer replicas, whose slices are longer, and
// whether their files fit beside the checkpoint that they go on from.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/job/plan.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/swap_folder.hpp"
#include "io/base/result.hpp"

namespace troupe::train {

/// The options of a rank, as its worker has them with so many threads, on the GPU that the plan
/// has it on.
engine_options planned_options(const job_plan& plan, const rank_place& rank, int threads);

/// The same; with what its chunks' homes
/// are (settle_swap), or, where nothing fits, the homes that need least memory.
engine_options settled_options(const job_plan& plan, const rank_place& rank, int threads);

/// Whether swap.host_bytes, and of GPUs swap.device_bytes, are enough for every rank; without a
/// swap folder they are, and of GPUs of which nothing is known here their nodes say it. Errors:
/// those of gpu::plan_residency, whose hint is the least that is enough for all of them.
status fits_swap_budget(const job_plan& plan, int threads);

/// Whether its replicas agree on their memory before they are built: else those whose machines have
/// other processors or threads, which need other scratch, would plan other homes for their chunks.
bool agrees_on_bytes(const config::job& job);

/// What each rank's stage may take: the least that a rank with the same layers has been left, by
/// rank as in `left`.
std::vector<uint64_t> agreed_bytes(const job_plan& plan, const std::vector<uint64_t>& left);

/// Whether ranks are asked for what they are left before they are built: for their memory
/// (agrees_on_bytes), or for the room on the drive that they share with checkpoints (swap.consume).
bool asks_ranks_first(const config::job& job);

/// Whether the files of all these ranks fit on the drive that they share only once a checkpoint has
/// become them. One answer for all: a rank by itself would not know what others are about to take,
/// and where some reserve their files there may be no room for what the rest needs beside theirs.
bool must_consume(const std::vector<drive_share>& ranks);

/// The least swap.host_bytes that all of a job's ranks can be trained with.
uint64_t swap_floor_bytes(const job_plan& plan, int threads);

/// The least swap.device_bytes of the same, where they are on GPUs; else 0.
uint64_t device_floor_bytes(const job_plan& plan, int threads);

/// The numbers of replicas that a job can go on with (replica_counts), less those whose ranks need
/// more than swap.host_bytes; always its own first. Each rank with the threads that it would have
/// if all nodes were machines like this one: with fewer replicas a rank may have more.
std::vector<int64_t> replica_counts_that_fit(const job_plan& whole);

}  // namespace troupe::train
