// Loops over ranks.
#include "actors/train/swap_ranks.hpp"

#include <algorithm>

#include "actors/job/replicas_policy.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/swap_folder.hpp"

namespace troupe::train {

engine_options settled_options(const job_plan& plan, const rank_place& rank, int threads) {
  auto out = options_of(plan.job, plan.model, rank.at, rank.layers, threads);
  static_cast<void>(settle_swap(out, plan.job));
  return out;
}

status fits_swap_budget(const job_plan& plan, int threads) {
  if (plan.job.swap.dir.empty()) return {};
  for (const auto& r : plan.ranks) {
    auto o = options_of(plan.job, plan.model, r.at, r.layers, threads);
    TROUPE_CHECK(settle_swap(o, plan.job));
  }
  return {};
}

uint64_t swap_floor_bytes(const job_plan& plan, int threads) {
  uint64_t most = 0;
  for (const auto& r : plan.ranks)
    most = std::max(most, swap_floor_bytes(plan.job, settled_options(plan, r, threads)));
  return most;
}

std::vector<int64_t> replica_counts_that_fit(const job_plan& whole) {
  auto out = replica_counts(whole.job);
  if (whole.job.swap.dir.empty()) return out;
  std::erase_if(out, [&](int64_t n) {
    if (n == whole.job.parallel.data) return false;
    const auto plan = with_replicas(whole, n);
    return !plan || !fits_swap_budget(*plan, threads_here(plan->job.cluster));
  });
  return out;
}

}  // namespace troupe::train
