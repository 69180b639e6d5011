// What of a GPU's memory a rank that swaps may take (swap.device_bytes), and what its operations
// take beside its stage. What it takes of the host's memory beside that is swap_folder.hpp's.
//
// A GPU's bytes are of all the job's ranks that compute on it, in equal shares. Of a job whose
// ranks compute on the host, or on GPUs that nobody here knows, there is no such budget.
//
// Pure.
#pragma once

#include <cstdint>

#include "actors/train/engine.hpp"

namespace troupe::train {

/// Of a GPU, where a job does not say how much of it: for the driver's context, for what its
/// libraries keep (products, exchanges), and for rounding up. Of a small one an eighth.
inline constexpr uint64_t gpu_reserve_bytes = uint64_t{1} << 30;
/// For sums, norms and what else operations need that is small, of each rank.
inline constexpr uint64_t gpu_small_bytes = uint64_t{64} << 20;

inline bool on_gpu(const engine_options& options) {
  return options.gpu_at.bytes > 0;
}

/// What a job's ranks may take of a GPU of that size, all together: swap.device_bytes, of 0 all but
/// the reserve; never more than it has.
uint64_t device_bytes_of(const config::job& job, const gpu_place& gpu);

/// What the process of a rank with these options may hold of its GPU: the shares of as many of the
/// job's ranks there as a process can have. The others' shares are for processes of their own.
uint64_t device_limit_bytes(const config::job& job, const engine_options& options);

/// What operations of a rank with these options, which is on a GPU, take of it beside its stage.
uint64_t device_overhead_bytes(const engine_options& options);

/// What the stage of such a rank may take of its GPU, and of what it has agreed on with its
/// replicas (swap_ranks.hpp: agreed_bytes); 0 where nothing is left.
uint64_t device_budget_bytes(const config::job& job, const engine_options& options);

}  // namespace troupe::train
