// Replicas that update before their norm is known: all keep what they have made, or all drop it and
// make the step again, with the bits of training in memory (ENG-11, SWP-9, CLP-4).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/swap/residency_plan.hpp"
#include "tests/actors/swapped_job.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::train::test {

namespace {

using steps_seen = std::function<void(int64_t step, replicas& all)>;

/// Trains some steps, behind each of which `seen` is called.
swapped_outcome train_seen(int ranks, const swapped_job& job, const settle_where& where, int steps,
                           const steps_seen& seen) {
  replicas all(ranks, gpu::optimizer_step_args::rule::adamw, job.type, [&](engine_options o) {
    o = replica_options(std::move(o), job);
    where(o);
    return replicas::plain(o);
  });
  swapped_outcome out;
  for (int64_t step = 1; step <= steps; ++step) {
    out.losses.push_back(all.step(step));
    out.norms.push_back(all.norm);
    if (seen) seen(step, all);
  }
  for (auto& rank : all.ranks) append_state(rank->model()->store(), out.state);
  return out;
}

/// Of a job, limits that clip no step, some of them, and all.
std::vector<float> limits_of(int ranks, swapped_job job, int steps) {
  job.clip_norm = 0;
  auto norms = train_seen(ranks, job, in_memory, steps, {}).norms;
  std::sort(norms.begin(), norms.end());
  const auto part = [&](size_t i, double of) { return static_cast<float>(of * norms[i]); };
  return {part(norms.size() - 1, 100), part(norms.size() / 2, 1.001), part(0, 0.01)};
}

/// In a second version, with the weights of one layer in memory; `weights`: of bfloat16.
settle_where replicas_speculating(const std::filesystem::path& folder, gpu::clip_way way,
                                  int64_t group,
                                  gpu::weights_choice weights = gpu::weights_choice::stored) {
  return [=](engine_options& o) {
    o.swap_dirs = {folder};
    o.swap_clip = way;
    o.swap_weights = weights;
    o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
    CHECK(o.shape.where.derives_weights == (weights == gpu::weights_choice::derived));
    o.shape.where.speculates = true;
    o.shape.where.group_elements = group;
    o.shape.where.chunks[2].weight_frame = -1;
    CHECK_FALSE(gpu::keeps_gradients(o.shape.where));
    CHECK(gpu::update_order_of(o.shape.where, updates_wait(o)) == gpu::update_order::speculate);
  };
}

void train_at_limits(int ranks, swapped_job job, int64_t group,
                     gpu::weights_choice weights = gpu::weights_choice::stored) {
  constexpr int steps = 5;
  scratch dir;
  std::vector<int> clipped;  // steps, by limit
  for (const float limit : limits_of(ranks, job, steps)) {
    job.clip_norm = limit;
    INFO(text_of_job(job));
    CAPTURE(ranks);
    const auto expected = train_seen(ranks, job, in_memory, steps, {});
    int above = 0;
    for (const double norm : expected.norms) above += norm > limit ? 1 : 0;
    clipped.push_back(above);
    for (const auto way : {gpu::clip_way::speculate, gpu::clip_way::automatic}) {
      std::vector<uint64_t> redone;
      CHECK(train_seen(ranks, job, replicas_speculating(dir.path, way, group, weights), steps,
                       [&](int64_t, replicas& all) {
                         redone.clear();
                         for (auto& rank : all.ranks)
                           redone.push_back(rank->swap_facts()->redone_steps);
                       }) == expected);
      for (const auto of_rank : redone) {
        CHECK(of_rank == redone.front());
        if (way == gpu::clip_way::speculate) CHECK(of_rank == static_cast<uint64_t>(above));
      }
    }
    CHECK(std::filesystem::is_empty(dir.path));
  }
  REQUIRE(clipped.size() == 3);
  CHECK(clipped[0] == 0);
  CHECK(clipped[1] > 0);
  CHECK(clipped[1] < steps);
  CHECK(clipped[2] == steps);
}

void moves_as_planned(const std::filesystem::path& folder, gpu::dtype type,
                      gpu::weights_choice weights, bool counts) {
  const swapped_job job{.type = type, .clip_norm = counts ? 100.0f : 1e-3f};
  gpu::step_traffic planned;
  std::vector<gpu::phase_traffic> before(2), after(2);
  const auto speculating = replicas_speculating(folder, gpu::clip_way::speculate, 2048, weights);
  train_seen(
      2, job,
      [&](engine_options& o) {
        speculating(o);
        planned = gpu::traffic_of_step(o.model, o.shape, steps_of(o));
      },
      4,
      [&](int64_t, replicas& all) {
        for (size_t r = 0; r < 2; ++r) {
          await_drive(*all.ranks[r]);
          const auto facts = *all.ranks[r]->swap_facts();
          before[r] = std::exchange(after[r], {facts.read_bytes, facts.written_bytes, 0});
        }
      });
  CHECK(planned.passes == 1);
  for (size_t r = 0; r < 2; ++r) {
    const auto read = after[r].read_bytes - before[r].read_bytes;
    const auto written = after[r].written_bytes - before[r].written_bytes;
    CHECK(written == (counts ? 1 : 2) * planned.whole().written_bytes);
    if (counts) CHECK(read == planned.whole().read_bytes);
    if (!counts) CHECK(read >= 2 * planned.whole().read_bytes);  // and weights that came back
  }
}

}  // namespace

TEST_CASE("ENG-11 SWP-9 CLP-4: replicas: updates before their norm count on all, or on none") {
  for (const int ranks : {2, 3})
    for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
      train_at_limits(ranks, {.type = type, .layers = 3}, 2048);
}

TEST_CASE("ENG-11 SWP-9: replicas with LAMB, whose dropped updates had other norms of tensors") {
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    train_at_limits(2, {.type = type, .layers = 3, .lamb = true}, lamb_group);
}

TEST_CASE("ENG-11 SWP-18 SWP-9: replicas whose weights have no files drop updates, or keep them") {
  const auto train = [](int ranks, std::optional<uint64_t> rounding, bool lamb) {
    const swapped_job job{
        .type = gpu::dtype::bf16, .layers = 3, .rounding = rounding, .lamb = lamb};
    train_at_limits(ranks, job, lamb ? lamb_group : 2048, gpu::weights_choice::derived);
  };
  train(2, std::nullopt, false);
  train(3, 17, false);
  train(2, 17, true);
}

TEST_CASE("ENG-11 SWP-9: replicas: a step that counts moves what one without clipping does") {
  scratch dir;
  using enum gpu::weights_choice;
  const std::vector<std::pair<gpu::dtype, gpu::weights_choice>> kinds{
      {gpu::dtype::f32, stored}, {gpu::dtype::bf16, stored}, {gpu::dtype::bf16, derived}};
  for (const auto& [type, weights] : kinds)
    for (const bool counts : {true, false}) moves_as_planned(dir.path, type, weights, counts);
}

TEST_CASE("ENG-11 SWP-9: replicas: a step that is made again tells the digests of its first try") {
  constexpr int64_t steps = 3;
  scratch dir;
  const swapped_job job{.type = gpu::dtype::bf16, .clip_norm = 1e-3f};
  const auto digests_of = [&](const settle_where& where) {
    replicas two(2, gpu::optimizer_step_args::rule::adamw, job.type, [&](engine_options o) {
      o = replica_options(std::move(o), job);
      where(o);
      return replicas::plain(o);
    });
    std::vector<std::vector<uint64_t>> out;
    for (int64_t step = 1; step <= steps; ++step) {
      std::vector<pending> updates(2);
      for (size_t r = 0; r < 2; ++r) {
        two.forward(r, static_cast<uint64_t>(step));
        op_order backward{pipeline_op::backward, 0, 0, 0, true};
        backward.digest = step != 2;
        two.ranks[r]->run(backward, [](const status&) {});
        if (backward.digest) two.ranks[r]->digest_weights();
        two.ranks[r]->update(step, 1e-2, updates[r].outcome());
      }
      for (auto& told : two.updated(step, updates)) out.push_back(std::move(told.digests));
    }
    return out;
  };
  const auto expected = digests_of(in_memory);
  CHECK(expected[0] == expected[1]);
  CHECK(expected[0].size() > 0);
  CHECK(expected[2].empty());
  for (const auto weights : {gpu::weights_choice::stored, gpu::weights_choice::derived})
    CHECK(digests_of(replicas_speculating(dir.path, gpu::clip_way::speculate, 2048, weights)) ==
          expected);
}

}  // namespace troupe::train::test
