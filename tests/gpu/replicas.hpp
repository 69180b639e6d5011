// Several replicas of a stage in threads of one process: stores that share the state, their
// optimizers, and a step as a rank takes it, on one stream.
#pragma once

#include <vector>

#include "gpu/model/init.hpp"
#include "gpu/model/stage_shape.hpp"
#include "gpu/optim/optimizer.hpp"
#include "tests/gpu/collective_cases.hpp"
#include "tests/gpu/model_samples.hpp"

namespace troupe::gpu::testing {

struct replica {
  collective_cases::member at;
  std::unique_ptr<parameter_store> store;
  std::unique_ptr<optimizer> rule;
};

inline std::unique_ptr<parameter_store> store_of(device& owner, const model_config& model,
                                                 dtype compute, replica_place place) {
  auto made = parameter_store::make(owner, stage_chunks(model, whole_model(model, 1, 4, compute)),
                                    {.compute = compute, .training = true, .replica = place});
  REQUIRE(made);
  return std::move(*made);
}

/// Connected replicas of a whole model with its first weights.
inline std::vector<replica> make_replicas(int count, const model_config& model, dtype compute,
                                          const optimizer_settings& settings = {}) {
  const collective_cases::transport gloo{
      [] { return make_host_device(1); },
      [](const group_options& o, device&) { return open_gloo_group(o); }};
  std::vector<replica> out;
  for (auto& m : collective_cases::connected(gloo, count)) {
    replica r;
    r.at = std::move(m);
    r.store = store_of(*r.at.device, model, compute, {static_cast<int>(out.size()), count});
    REQUIRE(initialize(*r.store, model, 5));
    auto rule = optimizer::make(*r.store, settings);
    REQUIRE(rule);
    r.rule = std::move(*rule);
    out.push_back(std::move(r));
  }
  return out;
}

/// The replica's part of a made-up gradient: whole numbers, so that sums are exact, of which the
/// replicas' add up to the same however many they are.
inline float part_of_gradient(int64_t i, int64_t step, int rank, int ranks) {
  const auto all = static_cast<float>((i * 7 + step * 13) % 23 - 11);
  const auto others = static_cast<float>((i * 5 + step) % 9 - 4);
  return rank > 0 ? others : all - others * static_cast<float>(ranks - 1);
}

inline void enqueue_gradients(replica& r, int64_t step) {
  r.at.stream->host_task([&r, step]() -> status {
    const auto& place = r.store->options().replica;
    for (int c = 0; c < r.store->chunk_count(); ++c)
      for (const auto& t : r.store->info(c).tensors)
        for (int64_t i = 0; i < t.count; ++i)
          r.store->grad(c)[t.offset + i] += part_of_gradient(i + c, step, place.rank, place.ranks);
    return {};
  });
}

inline void enqueue_step(replica& r, int64_t step, float lr = 1e-2f) {
  auto& s = *r.at.stream;
  auto& store = *r.store;
  enqueue_gradients(r, step);
  r.rule->begin(s);
  for (int c = 0; c < store.chunk_count(); ++c) {
    const auto& own = store.slice(c);
    r.at.group->reduce_scatter_sum(s, store.grad(c), own.part);
    s.zero(store.grad(c), static_cast<size_t>(own.first) * sizeof(float));
    s.zero(store.grad(c) + own.first + own.part,
           static_cast<size_t>(own.whole - own.first - own.part) * sizeof(float));
    r.rule->norm(s, c);
  }
  r.at.group->all_reduce_sum(s, r.rule->norm_squared(), 1);
  r.rule->clip(s);
  if (const auto norms = r.rule->shared_norms(); norms.part_bytes > 0) {
    for (int c = 0; c < store.chunk_count(); ++c) r.rule->measure(s, c, lr, step);
    r.at.group->all_gather(s, norms.data, norms.part_bytes);
  }
  for (int c = 0; c < store.chunk_count(); ++c) {
    r.rule->step(s, c, lr, step);
    r.at.group->all_gather(
        s, store.weight(c),
        store.bytes(c, part::weight) / static_cast<size_t>(store.options().replica.ranks));
  }
}

/// All replicas at once: they wait for each other.
inline void take_steps(std::vector<replica>& all, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step)
    for (auto& r : all) enqueue_step(r, step);
  for (auto& r : all) REQUIRE(r.at.stream->synchronize());
}

/// One part of a chunk, put together from the replicas' slices.
inline std::vector<float> whole_part(const std::vector<replica>& all, int chunk, part which) {
  std::vector<float> out;
  for (const auto& r : all) {
    std::vector<float> slice(static_cast<size_t>(r.store->slice(chunk).count));
    REQUIRE(r.store->read(chunk, which, slice.data()));
    out.insert(out.end(), slice.begin(), slice.end());
  }
  return out;
}

/// A chunk's weights as one replica has them, as bytes, without the padding at the end.
inline std::vector<std::byte> weight_bytes(const replica& r, int chunk) {
  const auto* first = static_cast<const std::byte*>(r.store->weight(chunk));
  const auto count = static_cast<size_t>(r.store->info(chunk).count);
  return {first, first + count * size_of(r.store->options().compute)};
}

}  // namespace troupe::gpu::testing
