// Sums over the chunks of a stage, and a search over the few settings that change them.
#include "actors/train/memory_estimate.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/train/batch_memory.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/gpu_budget.hpp"
#include "actors/train/inputs.hpp"
#include "actors/train/keeper_policy.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/swap_folder.hpp"
#include "actors/train/swap_ranks.hpp"
#include "gpu/swap/memory_split.hpp"
#include "gpu/swap/step_traffic.hpp"

namespace troupe::train {

namespace {

/// Masters and both moments of one rank, 4 bytes each.
uint64_t share_of(const model_config& model, const gpu::stage_shape& shape) {
  uint64_t elements = 0;
  for (const auto& chunk : gpu::stage_chunks(model, shape))
    elements += static_cast<uint64_t>(gpu::slice_of(chunk.count, shape.replica).part);
  return elements * 12;
}

/// The ring of one rank (gpu::state_saver): room for two shares, as far as the job allows.
uint64_t ring_of(uint64_t share_bytes, const engine_options& o) {
  const uint64_t slot = o.checkpoint_slot_bytes;
  const uint64_t wanted = 2 * std::max<uint64_t>(1, (share_bytes + slot - 1) / slot);
  return std::min(wanted, std::max<uint64_t>(2, o.checkpoint_ring_bytes / slot)) * slot;
}

/// In matrix products, the head's included.
int64_t matrix_elements_of(const model_config& model, const gpu::stage_shape& shape) {
  int64_t out = shape.has_head ? model.vocab * model.hidden : 0;
  for (const auto& chunk : gpu::stage_chunks(model, shape))
    for (const auto& t : chunk.tensors)
      if (t.shape.size() == 2 && chunk.layer >= 0) out += t.count;
  return out;
}

planned_stage plan_of(const job_plan& plan, const rank_place& r) {
  const auto o = settled_options(plan, r, threads_here(plan.job.cluster));
  const int64_t micro_batches = plan.job.micro_batches();
  planned_stage out;
  out.pipeline_rank = r.at.place().pipeline;
  out.layers = r.layers;
  out.bytes = gpu::plan_stage(plan.model, o.shape);
  if (on_gpu(o)) {  // whose slots have neither whole pages nor what a checkpoint reads
    const auto split = gpu::split_of(plan.model, o.shape);
    out.bytes.swap_slots = split.device_bytes - (out.bytes.total() - out.bytes.swap_slots);
    out.twin_bytes = split.host_bytes;
  }
  for (const auto& chunk : gpu::stage_chunks(plan.model, o.shape))
    for (const auto& t : chunk.tensors) out.parameters += t.count;
  if (o.at.grid.data > 1) {
    out.reduced_bytes = out.bytes.gradients;
    out.gathered_bytes = out.bytes.weights;
    if (o.shape.where.any_on_disk()) {
      const auto traffic = gpu::traffic_of_step(plan.model, o.shape, steps_of(o));
      out.reduced_bytes = traffic.summed_bytes;
      out.gathered_bytes = traffic.gathered_bytes;
    }
  }
  out.matrix_elements = matrix_elements_of(plan.model, o.shape);
  out.step_flops = step_flops(o);
  if (!o.shape.has_head)
    out.boundary_bytes =
        static_cast<uint64_t>(o.shape.tokens() * micro_batches * plan.model.hidden) *
        gpu::size_of(o.shape.compute);
  out.share_bytes = share_of(plan.model, o.shape);
  out.ring_bytes = ring_of(out.share_bytes, o);
  return out;
}

uint64_t bytes_with(const job_plan& plan) {
  return largest_stage_bytes(plan_stages(plan));
}

/// The mildest first: what costs time before what changes the numbers.
std::vector<std::pair<memory_change, job_plan>> changes_of(const job_plan& plan) {
  std::vector<std::pair<memory_change, job_plan>> out;
  const auto add = [&](std::string setting, bool same, auto&& change) {
    job_plan changed = plan;
    change(changed.job);
    out.push_back({{std::move(setting), bytes_with(changed), same}, std::move(changed)});
  };
  const int64_t rows = plan.job.grid().rows_each(plan.job.train.batch);
  for (int64_t b = plan.job.train.micro_batch - 1; b >= 1; --b) {
    if (rows % b != 0) continue;
    add(fmt::format("train.micro_batch={}", b), true,
        [&](config::job& j) { j.train.micro_batch = b; });
  }
  if (!plan.job.model.recompute)
    add("model.recompute=true", true, [](config::job& j) { j.model.recompute = true; });
  if (plan.job.model.dtype == config::compute_dtype::f32)
    add("model.dtype=\"bf16\"", false,
        [](config::job& j) { j.model.dtype = config::compute_dtype::bf16; });
  return out;
}

}  // namespace

double step_flops(const engine_options& o) {
  const auto tokens = static_cast<double>(o.rows() * o.shape.seq);
  const auto attention = 12.0 * static_cast<double>(o.shape.layers()) *
                         static_cast<double>(o.model.attention_width() * o.shape.seq);
  const auto elements = static_cast<double>(matrix_elements_of(o.model, o.shape));
  return tokens * (6.0 * elements + attention);
}

std::vector<planned_stage> plan_stages(const job_plan& plan) {
  std::vector<planned_stage> out;
  for (const auto& r : plan.ranks) {
    // Ranks of a stage are neighbours (PLC-1).
    const bool known = !out.empty() && out.back().pipeline_rank == r.at.place().pipeline;
    auto& stage = known ? out.back() : out.emplace_back(plan_of(plan, r));
    stage.ranks.push_back(r.at.rank);
  }
  return out;
}

stage_seconds seconds_of(const planned_stage& s, const job_plan& plan, double flops_s,
                         double updates_s) {
  const double forward = s.step_flops / 3 / static_cast<double>(plan.micro_batches) / flops_s;
  const auto replicas = static_cast<double>(plan.job.parallel.data);
  return {forward, forward * (plan.job.model.recompute ? 3 : 2),
          static_cast<double>(s.parameters) / replicas / updates_s};
}

uint64_t largest_stage_bytes(const std::vector<planned_stage>& stages) {
  uint64_t most = 0;
  for (const auto& s : stages) most = std::max(most, s.bytes.total());
  return most;
}

std::vector<uint64_t> copies_of_nodes(const job_plan& plan,
                                      const std::vector<planned_stage>& stages) {
  std::vector<uint64_t> out(plan.job.cluster.node.size());
  const auto keepers = keepers_of(plan.job);
  if (keepers.empty()) return out;
  std::vector<uint64_t> share(plan.ranks.size());
  for (const auto& s : stages)
    for (const auto rank : s.ranks) share[static_cast<size_t>(rank)] = s.share_bytes;
  for (size_t r = 0; r < share.size(); ++r)
    for (const auto holder : {r, static_cast<size_t>(keepers[r])})
      out[static_cast<size_t>(plan.ranks[holder].node)] += 2 * share[r];
  return out;
}

machine_share share_of_machine(const job_plan& plan, const std::vector<planned_stage>& stages,
                               bool on_host) {
  machine_share out;
  for (const auto& s : stages) {
    if (on_host) out.stages += s.ranks.size() * s.bytes.total();
    out.twins += s.ranks.size() * s.twin_bytes;
    out.rings += s.ranks.size() * s.ring_bytes;
  }
  out.batches = batch_memory::slot_bytes_of(batch_of(plan.job)) *
                static_cast<uint64_t>(train_slots + validation_slots);
  for (const auto bytes : copies_of_nodes(plan, stages)) out.copies += bytes;
  out.processes = (plan.job.cluster.node.size() + 1) * idle_process_bytes;
  return out;
}

double pipeline_bubble(const job_plan& plan) {
  const auto p = static_cast<double>(plan.job.parallel.pipeline);
  const auto m = static_cast<double>(plan.job.micro_batches());
  return (p - 1) / (m + p - 1);
}

std::vector<memory_change> ways_to_fit(const job_plan& plan, uint64_t limit) {
  if (bytes_with(plan) <= limit) return {};
  const auto singles = changes_of(plan);
  std::vector<memory_change> out;
  for (const auto& [change, changed] : singles)
    if (change.bytes <= limit) {
      // Of the micro-batches that fit only the largest is worth output.
      const bool micro = change.setting.starts_with("train.micro_batch");
      if (micro && !out.empty() && out.front().setting.starts_with("train.micro_batch")) continue;
      out.push_back(change);
    }
  if (!out.empty()) return out;
  for (const auto& [first, changed] : singles) {
    for (auto& [second, both] : changes_of(changed)) {
      if (second.bytes > limit) continue;
      second.setting = first.setting + " " + second.setting;
      second.same_result = first.same_result && second.same_result;
      return {std::move(second)};
    }
  }
  return {};
}

}  // namespace troupe::train
