// The shape of a job that swaps.
#include "actors/sim/swapped_job.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "actors/train/engine.hpp"
#include "actors/train/swap_folder.hpp"
#include "actors/train/swap_ranks.hpp"
#include "gpu/back_end.hpp"
#include "gpu/model/stage_shape.hpp"
#include "gpu/store/store.hpp"
#include "gpu/swap/residency_plan.hpp"
#include "io/base/counted.hpp"

namespace troupe::sim {

namespace {

double said_or_assumed(int64_t bytes_s) {
  return bytes_s > 0 ? static_cast<double>(bytes_s) : assumed_drive_bytes_s;
}

/// SWJ-1: threads that follow from a machine's cores are one here.
int threads_said(const config::job& job) {
  return static_cast<int>(std::max<int64_t>(1, job.cluster.threads));
}

/// As a rank's worker has them, but for where chunks live: which room drives have is no matter.
train::engine_options options_said(const train::job_plan& plan, const train::rank_place& rank) {
  const auto& job = plan.job;
  auto out = train::options_of(job, plan.model, rank.at, rank.layers, threads_said(job));
  out.swap_clip = train::way_of(job.swap.clip);
  out.swap_weights = train::choice_of(job.swap.weights);
  return out;
}

/// Without what the kernels of this machine's processor take while they run (SWJ-1).
uint64_t bytes_beside(const config::job& job, const train::engine_options& o) {
  const auto scratch = gpu::scratch_bytes(o.device, o.model, o.shape, o.threads);
  return train::process_overhead_bytes(job, o) - train::workers_of(job) * scratch;
}

/// Between the least that the job can be trained with (0) and all that it could use (1).
double memory_share(const train::job_plan& plan) {
  const auto& job = plan.job;
  if (job.swap.host_bytes <= 0) return 0;
  double share = 1;
  for (const auto& rank : plan.ranks) {
    auto o = options_said(plan, rank);
    const auto workers = static_cast<double>(train::workers_of(job));
    const auto beside = static_cast<double>(bytes_beside(job, o));
    const auto all = static_cast<double>(gpu::plan_stage(o.model, o.shape).total());
    o.shape.activations.assign(static_cast<size_t>(o.shape.layers()),
                               gpu::activation_choice::recompute);
    o.shape.where = gpu::least_residency(o.model, o.shape, train::steps_of(o));
    const auto least = static_cast<double>(gpu::plan_stage(o.model, o.shape).total());
    const double each = (static_cast<double>(job.swap.host_bytes) - beside) / workers;
    if (all > least) share = std::min(share, std::clamp((each - least) / (all - least), 0.0, 1.0));
  }
  return share;
}

}  // namespace

uint64_t whole_bytes(const train::job_plan& plan, int threads) {
  uint64_t most = 0;
  for (const auto& rank : plan.ranks) {
    auto o = train::settled_options(plan, rank, threads);
    o.shape.where = {};
    const auto stage = gpu::plan_stage(o.model, o.shape).total();
    most = std::max(
        most, train::process_overhead_bytes(plan.job, o) + stage * train::workers_of(plan.job));
  }
  return most;
}

std::vector<double> state_parameters(const train::job_plan& plan) {
  std::vector<double> out(static_cast<size_t>(plan.job.parallel.pipeline));
  for (const auto& rank : plan.ranks) {
    const auto shape = train::shape_of(plan.job, rank.at, rank.layers);
    auto& of_stage = out[static_cast<size_t>(rank.at.place().pipeline)];
    for (const auto& chunk : gpu::stage_chunks(plan.model, shape))
      of_stage += static_cast<double>(gpu::slice_of(chunk.count, shape.replica).count);
  }
  return out;
}

swap_shape swap_of(const train::job_plan& plan) {
  const auto& job = plan.job;
  swap_shape out;
  if (job.swap.dir.empty()) return out;
  for (const auto& rank : plan.ranks) {
    if (rank.at.place().data != 0) continue;
    out.stage_layers.push_back(static_cast<int>(rank.layers.last - rank.layers.first));
    out.layers = std::max(out.layers, out.stage_layers.back());
  }
  out.memory = memory_share(plan);
  out.clip_norm = job.train.clip_norm;
  out.clip = job.swap.clip;
  out.spill_layers = static_cast<int>(std::max<int64_t>(0, job.swap.spill_layers));
  out.by_layer = job.parallel.schedule == config::pipeline_schedule::by_layer;
  out.lamb = job.train.optimizer == config::optimizer_kind::lamb;
  out.drives = static_cast<int>(job.swap.dir.size());
  out.patience_s = job.swap.patience_s;
  out.step_s = job.timeouts.step_s;
  out.read_bytes_per_s = said_or_assumed(job.swap.rates.read_bytes_s);
  out.write_bytes_per_s = said_or_assumed(job.swap.rates.write_bytes_s);
  return out;
}

void scale_drives(swap_shape& shape, const train::job_plan& simulated,
                  const train::job_plan& plan) {
  const auto small = state_parameters(simulated), whole = state_parameters(plan);
  const auto sum = [](const std::vector<double>& of) {
    return std::accumulate(of.begin(), of.end(), 0.0);
  };
  const double share = sum(small) / sum(whole);
  shape.read_bytes_per_s *= share;
  shape.write_bytes_per_s *= share;
  shape.stage_bytes.clear();
  for (size_t i = 0; i < small.size(); ++i)
    shape.stage_bytes.push_back(whole[i] / small[i] * share);
}

std::string swap_text(const config::job& job, const swap_shape& shape) {
  const auto& rates = job.swap.rates;
  const bool assumed = rates.read_bytes_s <= 0 || rates.write_bytes_s <= 0;
  constexpr double giga = 1e9;
  const auto fewest = *std::min_element(shape.stage_layers.begin(), shape.stage_layers.end());
  const auto layers = fewest == shape.layers ? counted(shape.layers, "layer")
                                             : fmt::format("{} to {} layers", fewest, shape.layers);
  return fmt::format(
      "swap: {} a stage, {}; a machine's drives read {:.3g} and write {:.3g} GB/s ({})\n", layers,
      job.swap.host_bytes > 0
          ? fmt::format("{:.0f} % of what need not be on the drives in memory", 100 * shape.memory)
          : std::string("the least in memory, for swap.host_bytes is left open"),
      said_or_assumed(rates.read_bytes_s) / giga, said_or_assumed(rates.write_bytes_s) / giga,
      assumed ? "assumed: [swap.rates] says others" : "as [swap.rates] says");
}

}  // namespace troupe::sim
