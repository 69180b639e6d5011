// Sums over one rank.
#include "actors/train/swap_forecast.hpp"

#include "actors/train/engine.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/memory_estimate.hpp"
#include "actors/train/swap_folder.hpp"

namespace troupe::train {

namespace {

gpu::phase_work work_of(const gpu::phase_traffic& t) {
  gpu::phase_work out;
  out.read_bytes = static_cast<double>(t.read_bytes);
  out.written_bytes = static_cast<double>(t.written_bytes);
  return out;
}

}  // namespace

gpu::phase_work swap_forecast::whole() const {
  auto out = forward;
  return out += backward;
}

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
  out.least = work_of(gpu::traffic_of_step(plan.model, o.shape, unclipped).whole());
  out.forward = work_of(out.traffic.forward);
  out.backward = work_of(out.traffic.backward);
  const auto stage = plan_stages(plan).front();
  const double forward_flops = stage.step_flops / 3;
  const double passes = static_cast<double>(out.traffic.passes);
  const double again = o.shape.recompute ? 1 : 0;
  out.forward.flops = passes * forward_flops;
  out.backward.flops = passes * (2 + again) * forward_flops;
  out.least.flops = 3 * forward_flops;
  out.backward.updates = out.least.updates = static_cast<double>(stage.parameters);
  out.overhead_bytes = process_overhead_bytes(plan.job, o);
  out.floor_bytes = swap_floor_bytes(plan.job, o);
  return out;
}

double expected_seconds(const swap_forecast& f, const gpu::machine_rates& rates) {
  return gpu::limit_of(f.forward, rates).seconds + gpu::limit_of(f.backward, rates).seconds;
}

}  // namespace troupe::train
