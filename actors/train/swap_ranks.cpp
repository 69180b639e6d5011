// Loops over ranks.
#include "actors/train/swap_ranks.hpp"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

#include "actors/job/replicas_policy.hpp"
#include "actors/train/gpu_budget.hpp"
#include "actors/train/machine.hpp"
#include "io/base/text.hpp"

namespace troupe::train {

engine_options planned_options(const job_plan& plan, const rank_place& rank, int threads) {
  auto out = options_of(plan.job, plan.model, rank.at, rank.layers, threads);
  if (plan.gpu_at.bytes == 0) return out;
  out.gpu_at = plan.gpu_at;
  out.device = "cuda";
  return out;
}

engine_options settled_options(const job_plan& plan, const rank_place& rank, int threads) {
  auto out = planned_options(plan, rank, threads);
  static_cast<void>(settle_swap(out, plan.job));
  return out;
}

namespace {

/// Settings that are enough where those of the plan are not: what a rank lacks is not what its
/// process does, which has more to hold.
std::string enough_settings(const job_plan& plan, int threads) {
  if (plan.gpu_at.bytes == 0)
    return fmt::format("--set swap.host_bytes={}", swap_floor_bytes(plan, threads));
  auto with = plan;
  std::string out;
  if (const auto floor = device_floor_bytes(plan, threads);
      floor > device_bytes_of(plan.job, plan.gpu_at)) {
    const bool here = plan.job.cluster.launch == config::launch_mode::local;
    if (here && floor > plan.gpu_at.bytes)
      return fmt::format("a GPU with {} of memory, or more stages (parallel.pipeline)",
                         bytes_text(floor));
    with.job.swap.device_bytes = static_cast<int64_t>(floor);
    with.gpu_at.bytes = std::max(with.gpu_at.bytes, floor);
    out = fmt::format("--set swap.device_bytes={}", floor);
  }
  if (const auto floor = swap_floor_bytes(with, threads);
      floor > static_cast<uint64_t>(plan.job.swap.host_bytes))
    out += fmt::format("{}--set swap.host_bytes={}", out.empty() ? "" : " ", floor);
  return out;
}

/// Whether its nodes have GPUs of which this machine knows nothing.
bool on_unknown_gpus(const job_plan& plan) {
  return plan.gpu_at.bytes == 0 && plan.job.cluster.launch != config::launch_mode::local &&
         plan.job.cluster.device == config::device_kind::cuda;
}

/// Whether its nodes may have GPUs that this machine cannot see, and are judged without.
bool may_have_gpus(const job_plan& plan) {
  return plan.gpu_at.bytes == 0 && plan.job.cluster.launch != config::launch_mode::local &&
         plan.job.cluster.device == config::device_kind::automatic;
}

}  // namespace

status fits_swap_budget(const job_plan& plan, int threads) {
  if (plan.job.swap.dir.empty() || on_unknown_gpus(plan)) return {};
  for (const auto& r : plan.ranks) {
    auto o = planned_options(plan, r, threads);
    const auto settled = settle_swap(o, plan.job);
    if (settled) continue;
    auto why = settled.error();
    why.hint = fmt::format(
        "{} is the least that this job can have; or lower train.micro_batch or train.seq_len",
        enough_settings(plan, threads));
    if (may_have_gpus(plan))
      why.hint +=
          "; nodes elsewhere are taken to have no GPUs: where all of them have, "
          "--set cluster.device=cuda";
    return why;
  }
  return {};
}

bool agrees_on_bytes(const config::job& job) {
  return !job.swap.dir.empty() && job.parallel.data > 1;
}

std::vector<uint64_t> agreed_bytes(const job_plan& plan, const std::vector<uint64_t>& left) {
  const auto stage_of = [&](size_t rank) { return plan.ranks.at(rank).at.place().pipeline; };
  std::map<int, uint64_t> least;
  for (size_t rank = 0; rank < left.size(); ++rank) {
    const auto [it, first] = least.emplace(stage_of(rank), left[rank]);
    it->second = std::min(it->second, left[rank]);
  }
  std::vector<uint64_t> out;
  for (size_t rank = 0; rank < left.size(); ++rank) out.push_back(least.at(stage_of(rank)));
  return out;
}

bool asks_ranks_first(const config::job& job) {
  return agrees_on_bytes(job) || (!job.swap.dir.empty() && job.swap.consume);
}

bool must_consume(const std::vector<drive_share>& ranks) {
  uint64_t needed = 0, free = 0;
  for (const auto& r : ranks) {
    needed += r.file_bytes;
    // Of one drive; what ended processes have left in a rank's folder is taken off what it needs.
    free = std::max(free, r.free_bytes);
  }
  return needed > free;
}

uint64_t swap_floor_bytes(const job_plan& plan, int threads) {
  uint64_t most = 0;
  for (const auto& r : plan.ranks)
    most = std::max(most, swap_floor_bytes(plan.job, settled_options(plan, r, threads)));
  return most;
}

uint64_t device_floor_bytes(const job_plan& plan, int threads) {
  if (plan.gpu_at.bytes == 0) return 0;
  auto with = plan;
  uint64_t most = 0;
  for (bool again = true; again;) {
    for (const auto& r : plan.ranks)
      most = std::max(most, device_floor_bytes(plan.job, settled_options(with, r, threads)));
    // GPUs elsewhere are taken to be as large as the key says, and a larger one's logits, of which
    // a device has a share at once, are more: what is told is enough for those of its own size.
    again = plan.job.cluster.launch != config::launch_mode::local && most > with.gpu_at.bytes;
    if (again) with.gpu_at.bytes = most;
  }
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
