// Sums over one rank.
#include "actors/train/swap_forecast.hpp"

#include <algorithm>

#include "actors/train/engine.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/memory_estimate.hpp"

namespace troupe::train {

std::optional<swap_forecast> forecast_swap(const job_plan& plan) {
  if (plan.job.swap.dir.empty() || plan.ranks.size() != 1) return std::nullopt;
  const auto& r = plan.ranks.front();
  auto o = options_of(plan.job, plan.model, r.at, r.layers, threads_here(plan.job.cluster));
  static_cast<void>(settle_swap(o, plan.job));  // else what needs least memory
  if (!o.shape.where.any_on_disk()) return std::nullopt;
  const auto budget = steps_of(o);
  swap_forecast out;
  out.order = gpu::update_order_of(o.shape.where, budget.clips);
  out.traffic = gpu::traffic_of_step(plan.model, o.shape, budget);
  auto unclipped = budget;
  unclipped.clips = false;
  const auto stage = plan_stages(plan).front();
  const auto updates = static_cast<double>(stage.parameters);
  const double head = gpu::head_flops(plan.model, static_cast<double>(plan.job.tokens_per_step()));
  const auto work_of = [&](const gpu::step_traffic& traffic) {
    return gpu::work_of_step(traffic, stage.step_flops, head, o.shape.recompute, updates);
  };
  out.work = work_of(out.traffic);
  auto one_version = o.shape;
  one_version.where.speculates = false;
  out.clipped_work = work_of(gpu::traffic_of_step(plan.model, one_version, budget));
  out.least = gpu::work_of_step(gpu::traffic_of_step(plan.model, o.shape, unclipped),
                                stage.step_flops, head, false, updates)
                  .whole();
  out.overhead_bytes = process_overhead_bytes(plan.job, o);
  out.floor_bytes = swap_floor_bytes(plan.job, o);
  return out;
}

swap_needs swap_needs_of(const job_plan& plan) {
  if (plan.job.swap.dir.empty()) return {};
  uint64_t bytes = 0, saved = 0;
  for (const auto& s : plan_stages(plan)) {
    bytes += s.bytes.on_disk * s.ranks.size();
    saved += s.share_bytes * s.ranks.size();
  }
  // Weights beside their masters, 2 of 14 bytes a parameter, go into no checkpoint.
  const auto& first = plan.ranks.front();
  auto o = options_of(plan.job, plan.model, first.at, first.layers, threads_here(plan.job.cluster));
  static_cast<void>(settle_swap(o, plan.job));
  const auto one = o.shape.where.speculates ? bytes / 2 : bytes;
  const auto linked = o.shape.compute == gpu::dtype::f32 ? one : one / 14 * 12;
  return {bytes, checkpoints_beside(plan.job, saved, std::min(linked, saved))};
}

double expected_seconds(const swap_forecast& f, const gpu::machine_rates& rates) {
  return gpu::limit_of(f.work.forward, rates).seconds +
         gpu::limit_of(f.work.backward, rates).seconds;
}

}  // namespace troupe::train
