// Training with what of it lives on a drive, against the same in memory, for tests.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/swap/step_traffic.hpp"
#include "tests/actors/replicas.hpp"

namespace troupe::train::test {

/// How a job of the test trains.
struct swapped_job {
  gpu::dtype type = gpu::dtype::f32;
  bool llama = false;
  bool by_layer = false;
  float clip_norm = 0;
  int layers = 5;
  bool recompute = false;
  std::optional<uint64_t> rounding = {};
  bool lamb = false;  ///< with groups of at most `lamb_group`
  std::vector<gpu::activation_choice> activations = {};
};
/// A layer of `lamb_ffn` has two groups then, each smaller than that (CHF-2).
inline constexpr int64_t lamb_group = 8192, lamb_ffn = 240;

/// What training came to.
struct swapped_outcome {
  std::vector<double> losses, norms;
  std::vector<float> state;
  bool operator==(const swapped_outcome&) const = default;
};

inline engine_options swap_engine_options(engine_options o, const swapped_job& job) {
  o.model.layers = job.layers;
  if (job.lamb) o.model.ffn = lamb_ffn;
  if (job.llama) {
    o.model.family = model_family::llama;
    o.model.tied = false;
    o.model.activation = activation_kind::swiglu;
    o.model.attention_bias = o.model.output_bias = o.model.mlp_bias = false;
  }
  o.shape = gpu::whole_model(o.model, job.by_layer ? 2 : batch, seq, job.type);
  o.shape.by_layer = job.by_layer;
  o.shape.slots = job.by_layer ? batch / 2 : 1;
  o.shape.recompute = job.recompute;
  o.shape.activations = job.activations;
  o.shape.rounding_seed = job.rounding;
  o.optimizer.clip_norm = job.clip_norm;
  if (job.lamb) {
    o.optimizer.kind = gpu::optimizer_step_args::rule::lamb;
    o.optimizer.norm_elements = lamb_group;
  }
  return o;
}

inline void append_state(gpu::parameter_store& store, std::vector<float>& into) {
  for (int c = 0; c < store.chunk_count(); ++c)
    for (const auto which : {gpu::part::master, gpu::part::m, gpu::part::v}) {
      std::vector<float> values(static_cast<size_t>(store.slice(c).count));
      REQUIRE(store.read(c, which, values.data()));
      into.insert(into.end(), values.begin(), values.end());
    }
}

/// Waits until the updates so far are on the drive.
inline void await_drive(rank_engine& engine) {
  auto& store = engine.model()->store();
  auto s = store.owner().make_stream({});
  REQUIRE(s);
  for (int c = 0; c < store.chunk_count(); ++c) store.await_state(**s, c);
  REQUIRE((*s)->synchronize());
}

using settle_where = std::function<void(engine_options&)>;

inline replicas engine_where(const swapped_job& job, const settle_where& where) {
  return replicas(1, gpu::optimizer_step_args::rule::adamw, job.type, [&](engine_options o) {
    o = swap_engine_options(std::move(o), job);
    where(o);
    return replicas::plain(o);
  });
}

inline step_outcome make_step(rank_engine& engine, const swapped_job& job, int64_t step) {
  const int together = job.by_layer ? static_cast<int>(batch) / 2 : 1;
  const auto told = [](const status&) {};
  engine.run({pipeline_op::begin}, {});
  engine.run({pipeline_op::forward, 0, 0, 0, false, 0, together}, told);
  engine.run({pipeline_op::backward, 0, 0, 0, true, 0, together}, told);
  for (int calls = 1;; ++calls) {
    pending updated;
    engine.update(step, 1e-2, updated.outcome());
    auto out = updated.get();
    if (!out.again) return out;
    REQUIRE(calls == 1);
  }
}

/// Trains some steps where chunks live as `where` says, given the options.
inline swapped_outcome train_where(const swapped_job& job, const settle_where& where, int steps = 4,
                                   uint64_t* redone = nullptr) {
  auto one = engine_where(job, where);
  auto& engine = *one.ranks.front();
  swapped_outcome out;
  for (int64_t step = 1; step <= steps; ++step) {
    const auto outcome = make_step(engine, job, step);
    out.losses.push_back(outcome.loss_sum);
    out.norms.push_back(outcome.grad_norm);
  }
  append_state(engine.model()->store(), out.state);
  if (redone) *redone = engine.swap_facts()->redone_steps;
  return out;
}

inline const auto in_memory = [](engine_options&) {};

/// Of one of several.
inline engine_options replica_options(engine_options o, const swapped_job& job) {
  const auto place = o.shape.replica;
  o = swap_engine_options(std::move(o), job);
  o.shape.micro_batch = batch / place.ranks;
  o.shape.replica = place;
  return o;
}

/// The same with replicas, of which each moves in the last step what was planned.
inline swapped_outcome train_replicas(int ranks, const swapped_job& job,
                                      const settle_where& where) {
  gpu::phase_traffic planned;
  replicas all(ranks, gpu::optimizer_step_args::rule::adamw, job.type, [&](engine_options o) {
    o = replica_options(std::move(o), job);
    where(o);
    planned = gpu::traffic_of_step(o.model, o.shape, steps_of(o)).whole();
    return replicas::plain(o);
  });
  swapped_outcome out;
  std::vector<gpu::phase_traffic> before(all.ranks.size()), after(all.ranks.size());
  for (int64_t step = 1; step <= 4; ++step) {
    out.losses.push_back(all.step(step));
    out.norms.push_back(all.norm);
    for (size_t r = 0; r < all.ranks.size(); ++r) {
      if (!all.ranks[r]->swap_facts()) continue;
      await_drive(*all.ranks[r]);
      const auto facts = *all.ranks[r]->swap_facts();
      before[r] = std::exchange(after[r], {facts.read_bytes, facts.written_bytes});
    }
  }
  for (size_t r = 0; r < all.ranks.size(); ++r) {
    append_state(all.ranks[r]->model()->store(), out.state);
    CHECK(after[r].read_bytes - before[r].read_bytes == planned.read_bytes);
    CHECK(after[r].written_bytes - before[r].written_bytes == planned.written_bytes);
  }
  return out;
}

/// Layers share frames, all state is on disk.
inline auto least_memory(const std::filesystem::path& folder, int64_t group = 1 << 20,
                         int groups = 3) {
  return [=](engine_options& o) {
    o.swap_dirs = {folder};
    o.shape.where =
        gpu::least_residency(o.model, o.shape, {0, o.optimizer.clip_norm > 0, o.shape.slots});
    o.shape.where.group_elements = group;
    o.shape.where.groups_in_memory = groups;
  };
}

/// The same, with updates that come before their norm: into a second version.
inline auto speculating(const std::filesystem::path& folder,
                        gpu::clip_way way = gpu::clip_way::speculate, int64_t group = 1 << 20,
                        int groups = 3) {
  return [=](engine_options& o) {
    least_memory(folder, group, groups)(o);
    o.shape.where.speculates = true;
    o.swap_clip = way;
  };
}

inline std::string text_of_job(const swapped_job& j) {
  return std::string(j.type == gpu::dtype::f32 ? "f32" : "bf16") + (j.llama ? " llama" : " gpt2") +
         (j.by_layer ? " by layer" : "") + (j.recompute ? " recomputed" : "") +
         (j.lamb ? " lamb" : "") + " clip " + std::to_string(j.clip_norm);
}

}  // namespace troupe::train::test
