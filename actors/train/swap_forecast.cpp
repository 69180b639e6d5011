// Sums over ranks.
#include "actors/train/swap_forecast.hpp"

#include <algorithm>
#include <utility>

#include "actors/train/engine.hpp"
#include "actors/train/gpu_budget.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/memory_estimate.hpp"
#include "actors/train/swap_ranks.hpp"
#include "gpu/swap/activation_plan.hpp"
#include "gpu/swap/chunk_places.hpp"
#include "gpu/swap/memory_split.hpp"

namespace troupe::train {

namespace {

void add(gpu::step_work& to, const gpu::step_work& of) {
  to.forward += of.forward;
  to.backward += of.backward;
}

void add(gpu::phase_traffic& to, const gpu::phase_traffic& of) {
  to.read_bytes += of.read_bytes;
  to.written_bytes += of.written_bytes;
  to.summed_bytes += of.summed_bytes;
}

/// A block without x + attention keeps its input alone.
gpu::activation_choice kept_of(const model_config& model, const gpu::stage_shape& shape, size_t i) {
  using enum gpu::activation_choice;
  const auto kept = shape.activations_of(i);
  return kept == half && model.block != block_form::sequential ? recompute : kept;
}

/// Layers of `shape` by what they keep, added to `to`.
void count_layers(std::array<int64_t, gpu::activation_choices>& to, const model_config& model,
                  const gpu::stage_shape& shape) {
  for (size_t i = 0; i < static_cast<size_t>(shape.layers()); ++i)
    ++to[static_cast<size_t>(kept_of(model, shape, i))];
}

/// Those of a rank's stage, once for all its replicas.
void count_rank(layer_choices& out, const job_plan& plan, const engine_options& o) {
  if (o.at.place().data != 0) return;
  count_layers(out.layers, plan.model, o.shape);
  const layer_range of{o.shape.first_layer, o.shape.last_layer};
  const bool chosen = plan.job.swap.keep_layers >= 0;
  count_layers(out.asked, plan.model, chosen ? shape_of(plan.job, o.at, of) : o.shape);
}

/// One rank that derives them is told of.
void note_weights(gpu::weights_choice& of_all, const gpu::stage_shape& shape) {
  using enum gpu::weights_choice;
  if (shape.compute == gpu::dtype::f32 || of_all == derived) return;
  of_all = shape.where.derives_weights ? derived : stored;
}

void add_rank(swap_forecast& out, const job_plan& plan, const planned_stage& stage,
              const engine_options& o) {
  const auto budget = steps_of(o);
  const auto traffic = gpu::traffic_of_step(plan.model, o.shape, budget);
  add(out.traffic.forward, traffic.forward);
  add(out.traffic.backward, traffic.backward);
  out.traffic.passes = traffic.passes;
  if (o.at.grid.data > 1) out.traffic.gathered_bytes += traffic.gathered_bytes;
  auto unclipped = budget;
  unclipped.clips = false;
  const auto replicas = static_cast<double>(o.at.grid.data);
  const double updates = static_cast<double>(stage.parameters) / replicas;
  const double tokens = static_cast<double>(plan.job.tokens_per_step()) / replicas;
  const double again = gpu::again_flops(plan.model, o.shape) * tokens;
  const auto work_of = [&](const gpu::step_traffic& t, double flops_again) {
    return gpu::work_of_step(t, stage.step_flops, flops_again, updates);
  };
  add(out.work, work_of(traffic, again));
  auto one_version = o.shape;
  one_version.where.speculates = false;
  add(out.clipped_work, work_of(gpu::traffic_of_step(plan.model, one_version, budget), again));
  auto unspilt = o.shape;
  std::replace(unspilt.activations.begin(), unspilt.activations.end(),
               gpu::activation_choice::spill, gpu::activation_choice::keep);
  out.least += work_of(gpu::traffic_of_step(plan.model, unspilt, unclipped), 0).whole();
  count_rank(out.kept, plan, o);
  out.overhead_bytes = std::max(out.overhead_bytes, process_overhead_bytes(plan.job, o));
  if (!on_gpu(o)) return;
  const auto split = gpu::split_of(plan.model, o.shape);
  out.of_gpu.device_bytes = device_bytes_of(plan.job, o.gpu_at);
  out.of_gpu.overhead_bytes = std::max(out.of_gpu.overhead_bytes, device_overhead_bytes(o));
  out.of_gpu.stage_bytes = std::max(out.of_gpu.stage_bytes, split.device_bytes);
  out.of_gpu.twin_bytes = std::max(out.of_gpu.twin_bytes, split.host_bytes);
}

}  // namespace

layer_choices layers_kept(const job_plan& plan) {
  layer_choices out;
  if (plan.job.swap.dir.empty()) return out;
  for (const auto& r : plan.ranks)
    count_rank(out, plan, settled_options(plan, r, threads_here(plan.job.cluster)));
  return out;
}

std::optional<swap_forecast> forecast_swap(const job_plan& plan) {
  if (plan.job.swap.dir.empty()) return std::nullopt;
  std::optional<swap_forecast> out;
  const auto stages = plan_stages(plan);
  std::vector<engine_options> ranks;
  for (const auto& r : plan.ranks) {
    auto o = settled_options(plan, r, threads_here(plan.job.cluster));
    if (!out && o.shape.where.any_on_disk()) {
      out.emplace();
      out->order = gpu::update_order_of(o.shape.where, updates_wait(o));
    }
    ranks.push_back(std::move(o));
  }
  if (!out) return std::nullopt;
  out->floor_bytes = swap_floor_bytes(plan, threads_here(plan.job.cluster));
  out->of_gpu.floor_bytes = device_floor_bytes(plan, threads_here(plan.job.cluster));
  for (const auto& o : ranks) {
    out->gradients_on_disk = out->gradients_on_disk || o.shape.where.gradients_on_disk;
    if (o.shape.where.any_on_disk()) note_weights(out->weights, o.shape);
    add_rank(*out, plan, stages[static_cast<size_t>(o.at.place().pipeline)], o);
  }
  return out;
}

std::optional<double> step_seconds(const job_plan& plan, const gpu::machine_rates& rates) {
  const auto stages = plan_stages(plan);
  swap_forecast out;
  bool spills = false;
  for (const auto& r : plan.ranks) {
    auto o = planned_options(plan, r, threads_here(plan.job.cluster));
    const auto asked = o.shape.activations;
    if (!settle_swap(o, plan.job)) return std::nullopt;
    const bool kept_nothing = o.shape.where.any_on_disk() && o.shape.activations != asked;
    if (kept_nothing) return std::nullopt;
    spills = spills || !o.shape.spilling().empty();
    add_rank(out, plan, stages[static_cast<size_t>(o.at.place().pipeline)], o);
  }
  if (plan.job.swap.spill_layers > 0 && !spills) return std::nullopt;  // another choice, then
  return expected_seconds(out, rates);
}

namespace {

/// For what swaps and its checkpoints; where that cannot be told, too.
bool has_drive_room(const job_plan& plan) {
  const auto needs = swap_needs_of(plan);
  const auto rooms = swap_rooms_of(needs.folders, needs.beside, plan.job.job.name);
  return !rooms ||
         std::all_of(rooms->begin(), rooms->end(), [](const auto& room) { return room.fits(); });
}

}  // namespace

void settle_activations(job_plan& plan, const gpu::machine_rates& rates) {
  if (!chooses_activations(plan.job)) return;
  int64_t layers = 0;  // of the stage that has most
  for (const auto& r : plan.ranks) layers = std::max(layers, r.layers.last - r.layers.first);
  auto tried = plan;
  const auto choose = [&](const gpu::activation_split& split) {
    tried.job.swap.keep_layers = split.keep;
    tried.job.swap.half_layers = split.half;
    tried.job.swap.spill_layers = split.spill;
  };
  const auto seconds = [&](const gpu::activation_split& split) -> std::optional<double> {
    choose(split);
    if (!has_drive_room(tried)) return std::nullopt;
    return step_seconds(tried, rates);
  };
  const auto best =
      gpu::choose_activations(layers, plan.model.block == block_form::sequential, seconds);
  if (!best) return;
  choose(*best);
  tried.job.swap.rates = section_of(rates);
  plan = std::move(tried);
}

swap_needs swap_needs_of(const job_plan& plan) {
  if (plan.job.swap.dir.empty()) return {};
  swap_needs out;
  uint64_t linked = 0, saved = 0;
  for (const auto& s : plan_stages(plan)) saved += s.share_bytes * s.ranks.size();
  for (const auto& r : plan.ranks) {
    const auto o = settled_options(plan, r, threads_here(plan.job.cluster));
    const auto places = gpu::bytes_of_places(plan.model, o.shape, o.swap_dirs.size());
    for (size_t i = 0; i < places.size(); ++i) {
      const auto& dir = o.swap_dirs[i];
      if (on_one_drive(dir, plan.job.checkpoint.dir)) linked += places[i].state;
      const auto found = std::find_if(out.folders.begin(), out.folders.end(),
                                      [&](const folder_need& f) { return f.dir == dir; });
      if (found == out.folders.end())
        out.folders.push_back({dir, places[i].files});
      else
        found->bytes += places[i].files;
    }
  }
  out.beside = checkpoints_beside(plan.job, saved, std::min(linked, saved));
  add_export(out.beside, plan.job, plan.model);
  return out;
}

double expected_seconds(const swap_forecast& f, const gpu::machine_rates& rates) {
  return gpu::limit_of(f.work.forward, rates).seconds +
         gpu::limit_of(f.work.backward, rates).seconds;
}

}  // namespace troupe::train
