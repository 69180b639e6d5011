// Shares less overheads.
#include "actors/train/gpu_budget.hpp"

#include <algorithm>

#include "actors/train/swap_folder.hpp"
#include "gpu/cuda/working_memory.hpp"

namespace troupe::train {

uint64_t device_bytes_of(const config::job& job, const gpu_place& gpu) {
  if (job.swap.device_bytes > 0)
    return std::min(static_cast<uint64_t>(job.swap.device_bytes), gpu.bytes);
  return gpu.bytes - std::min(gpu_reserve_bytes, gpu.bytes / 8);
}

namespace {

/// Of the ranks on its GPU each has as much.
uint64_t share_of_rank(const config::job& job, const gpu_place& gpu) {
  return device_bytes_of(job, gpu) / static_cast<uint64_t>(std::max<int64_t>(1, gpu.ranks));
}

}  // namespace

uint64_t device_limit_bytes(const config::job& job, const engine_options& options) {
  const auto ranks = static_cast<uint64_t>(std::max<int64_t>(1, options.gpu_at.ranks));
  if (workers_of(job) >= ranks) return device_bytes_of(job, options.gpu_at);
  return share_of_rank(job, options.gpu_at) * workers_of(job);
}

uint64_t device_overhead_bytes(const engine_options& options) {
  const auto& shape = options.shape;
  return gpu_small_bytes + gpu::cuda::rank_scratch_bytes(shape.tokens(),
                                                         shape.has_head ? options.model.vocab : 0,
                                                         options.gpu_at.bytes);
}

uint64_t device_budget_bytes(const config::job& job, const engine_options& options) {
  const auto share = share_of_rank(job, options.gpu_at);
  const auto overhead = device_overhead_bytes(options);
  const auto own = share - std::min(share, overhead);
  return options.swap_device_bytes > 0 ? std::min(own, options.swap_device_bytes) : own;
}

}  // namespace troupe::train
