// Replicas whose weights lie on drives, a slice each: they gather them when they use them, with the
// bits of training in memory (ENG-7, ENG-8, SWP-13).
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <vector>

#include "actors/train/swap_folder.hpp"
#include "gpu/back_end.hpp"
#include "gpu/swap/residency_plan.hpp"
#include "tests/actors/swapped_job.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::train::test {

TEST_CASE("ENG-11 RES-4: replicas whose state lies on drives train as those in memory") {
  for (const int ranks : {2, 4})
    for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
      for (const float clip : {0.0f, 0.5f}) {
        CAPTURE(ranks);
        CAPTURE(clip);
        scratch dir;
        const swapped_job job{.type = type, .clip_norm = clip};
        const auto expected = train_replicas(ranks, job, in_memory);
        CHECK(expected.losses.back() < expected.losses.front());
        CHECK(train_replicas(ranks, job, [&](engine_options& o) {
                o.swap_dirs = {dir.path};
                o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
                o.shape.where.group_elements = 2048;
                CHECK_FALSE(gpu::keeps_gradients(o.shape.where));
              }) == expected);
        CHECK(std::filesystem::is_empty(dir.path));
      }
}

TEST_CASE("ENG-11 ENG-2: replicas that update under backward have the bits of those that hold") {
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    for (const float clip : {0.0f, 0.5f})
      for (const int in_memory_from : {1, 4, 100}) {  // chunks
        CAPTURE(clip);
        CAPTURE(in_memory_from);
        scratch dir;
        const swapped_job job{.type = type, .clip_norm = clip};
        const auto expected = train_replicas(3, job, in_memory);
        for (const auto way : {gpu::clip_way::twice, gpu::clip_way::hold}) {
          CHECK(train_replicas(3, job, [&](engine_options& o) {
                  o.swap_dirs = {dir.path};
                  o.swap_clip = way;
                  o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
                  auto& chunks = o.shape.where.chunks;
                  for (size_t c = 0; c < chunks.size(); ++c)
                    if (static_cast<int>(c) >= in_memory_from) chunks[c] = {};
                }) == expected);
        }
      }
}

namespace {

/// Replicas whose rows come in micro-batches of one: all in one pass by layer, or one by one.
swapped_outcome train_in_parts(const swapped_job& job, const settle_where& where) {
  constexpr int ranks = 2, parts = batch / ranks;
  gpu::phase_traffic planned;
  replicas two(ranks, gpu::optimizer_step_args::rule::adamw, job.type, [&](engine_options o) {
    o = replica_options(std::move(o), job);
    o.shape.micro_batch = 1;
    o.shape.slots = job.by_layer ? parts : 1;
    where(o);
    planned = gpu::traffic_of_step(o.model, o.shape, steps_of(o)).whole();
    return replicas::plain(o);
  });
  const auto told = [](const status&) {};
  const int together = job.by_layer ? parts : 1;
  swapped_outcome out;
  std::vector<gpu::phase_traffic> before(ranks), after(ranks);
  for (int64_t step = 1; step <= 3; ++step) {
    const auto number = static_cast<uint64_t>(step);
    std::vector<pending> updates(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      auto& engine = *two.ranks[r];
      engine.run({pipeline_op::begin}, {});
      for (int m = 0; m < parts; m += together) {
        const bool last = m + together == parts;
        engine.run({pipeline_op::forward, m, 0, 0, false, number, together}, told);
        engine.run({pipeline_op::backward, m, 0, 0, last, number, together}, told);
      }
      engine.update(step, 1e-2, updates[r].outcome());
    }
    double loss = 0;
    for (size_t r = 0; r < ranks; ++r) {
      const auto outcome = updates[r].get();
      loss += outcome.loss_sum;
      out.norms.push_back(outcome.grad_norm);
      if (!two.ranks[r]->swap_facts()) continue;
      await_drive(*two.ranks[r]);
      const auto facts = *two.ranks[r]->swap_facts();
      before[r] = std::exchange(after[r], {facts.read_bytes, facts.written_bytes});
    }
    out.losses.push_back(loss);
  }
  for (size_t r = 0; r < ranks; ++r) {
    append_state(two.ranks[r]->model()->store(), out.state);
    CHECK(after[r].read_bytes - before[r].read_bytes == planned.read_bytes);
    CHECK(after[r].written_bytes - before[r].written_bytes == planned.written_bytes);
  }
  return out;
}

}  // namespace

TEST_CASE("ENG-11: replicas of several micro-batches have the same bits, by layer and not") {
  for (const bool by_layer : {true, false})
    for (const float clip : {0.0f, 0.5f}) {
      CAPTURE(by_layer);
      CAPTURE(clip);
      scratch dir;
      const swapped_job job{.type = gpu::dtype::bf16, .by_layer = by_layer, .clip_norm = clip};
      const auto expected = train_in_parts(job, in_memory);
      CHECK(expected.losses.back() < expected.losses.front());
      CHECK(train_in_parts(job, [&](engine_options& o) {
              o.swap_dirs = {dir.path};
              o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
              CHECK(gpu::keeps_gradients(o.shape.where) != by_layer);  // of the others they add up
            }) == expected);
    }
}

TEST_CASE("ENG-2: replicas sum all gradients in each round of passes, as their plan says") {
  for (const float clip : {0.0f, 0.5f}) {
    scratch dir;
    const swapped_job job{.clip_norm = clip};
    uint64_t planned = 0, gradients = 0;
    replicas two(2, gpu::optimizer_step_args::rule::adamw, job.type, [&](engine_options o) {
      o = replica_options(std::move(o), job);
      gradients = gpu::plan_stage(o.model, o.shape).gradients;
      o.swap_dirs = {dir.path};
      o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
      planned = gpu::traffic_of_step(o.model, o.shape, steps_of(o)).summed_bytes;
      CHECK(gpu::plan_stage(o.model, o.shape).gradients < gradients);
      return replicas::plain(o);
    });
    two.step(1);
    std::vector<pending> updates;
    for (size_t r = 0; r < 2; ++r) {
      two.forward(r, 2);
      updates.push_back(two.finish(r, 2));
    }
    for (auto& u : updates) {
      const auto told = u.get();
      const auto part = std::find_if(told.parts.begin(), told.parts.end(), [](const auto& p) {
        return p.kind == pipeline_op::reduce_scatter;
      });
      REQUIRE(part != told.parts.end());
      CHECK(part->work == planned);
      CHECK(planned == (clip > 0 ? 2 : 1) * gradients);
    }
  }
}

namespace {

void train_at_every_budget(gpu::dtype type) {
  scratch dir;
  const swapped_job job{.type = type, .clip_norm = 0.5f, .layers = 32};
  const auto expected = train_replicas(2, job, in_memory);
  const auto one =
      replica_options(options_for(0, 2, gpu::optimizer_step_args::rule::adamw, type), job);
  const auto all = gpu::plan_stage(one.model, one.shape).total();
  auto budget = steps_of(one);
  gpu::residency last;
  int mixed = 0;  // some weights share frames, some have their own
  std::array<int, 2> kept{};
  for (budget.bytes = all / 24; budget.bytes < all; budget.bytes += all / 24) {
    const auto planned = gpu::plan_residency(one.model, one.shape, budget);
    if (!planned || *planned == last) continue;
    last = *planned;
    const auto in_frames = std::count_if(last.chunks.begin(), last.chunks.end(),
                                         [](const auto& c) { return c.weight_frame >= 0; });
    mixed += in_frames > 0 && in_frames < job.layers ? 1 : 0;
    CAPTURE(budget.bytes);
    ++kept.at(gpu::keeps_gradients(last) ? 1 : 0);
    CHECK(train_replicas(2, job, [&](engine_options& o) {
            o.swap_dirs = {dir.path};
            o.shape.where = last;
          }) == expected);
  }
  CHECK(mixed > 0);
  CHECK(kept[0] > 0);  // steps make their passes twice, or hold
  CHECK(kept[1] > 0);
}

}  // namespace

TEST_CASE("ENG-11 RES-4: replicas at every budget have the same bits: f32") {
  train_at_every_budget(gpu::dtype::f32);
}

TEST_CASE("ENG-11 RES-4: replicas at every budget have the same bits: bf16") {
  train_at_every_budget(gpu::dtype::bf16);
}

namespace {

/// Replicas at the least memory, whose layers share frames.
replicas sharing_frames(int ranks, const swapped_job& job, const scratch& dir) {
  return replicas(ranks, gpu::optimizer_step_args::rule::adamw, job.type, [&](engine_options o) {
    o = replica_options(std::move(o), job);
    o.swap_dirs = {dir.path};
    o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
    return replicas::plain(o);
  });
}

/// What is behind forward of a step in which weights are digested; of all ranks.
std::vector<step_outcome> finish_with_digests(replicas& all, int64_t step) {
  std::vector<pending> updates(all.ranks.size());
  for (size_t r = 0; r < all.ranks.size(); ++r) {
    op_order backward{pipeline_op::backward, 0, 0, 0, true};
    backward.digest = true;
    all.ranks[r]->run(backward, [](const status&) {});
    all.ranks[r]->digest_weights();
    all.ranks[r]->update(step, 1e-2, updates[r].outcome());
  }
  std::vector<step_outcome> out;
  for (auto& u : updates) out.push_back(u.get());
  return out;
}

/// Bytes of the digests of a step.
uint64_t digested_bytes(const step_outcome& of) {
  const auto part = std::find_if(of.parts.begin(), of.parts.end(),
                                 [](const auto& p) { return p.kind == pipeline_op::digest; });
  return part == of.parts.end() ? 0 : part->work;
}

void digest_all_weights(float clip_norm) {
  scratch dir;
  const swapped_job job{.type = gpu::dtype::bf16, .clip_norm = clip_norm};
  const auto expected = train_replicas(2, job, in_memory);
  auto two = sharing_frames(2, job, dir);
  auto& engine = *two.ranks.front();
  const auto& store = engine.model()->store();
  const auto read_bytes = [&] {
    await_drive(engine);
    return engine.swap_facts()->read_bytes;
  };
  uint64_t all_bytes = 0;
  for (int c = 0; c < store.chunk_count(); ++c) all_bytes += store.bytes(c, gpu::part::weight);
  std::vector<uint64_t> before(static_cast<size_t>(store.chunk_count()));
  std::vector<uint64_t> read;  // behind each step
  const auto check_loss = [&](int64_t step, double loss) {
    CHECK(loss == expected.losses[static_cast<size_t>(step - 1)]);
  };
  for (int64_t step = 1; step <= 3; ++step) {
    for (size_t r = 0; r < 2; ++r) two.forward(r, static_cast<uint64_t>(step));
    const auto told = finish_with_digests(two, step);
    REQUIRE(told[0].digests.size() == before.size());
    CHECK(told[0].digests == told[1].digests);
    for (size_t c = 0; c < before.size(); ++c) CHECK(told[0].digests[c] != before[c]);
    before = told[0].digests;
    CHECK(digested_bytes(told[0]) == all_bytes);
    check_loss(step, (told[0].loss_sum + told[1].loss_sum) / static_cast<double>(batch * seq));
    read.push_back(read_bytes());
  }
  check_loss(4, two.step(4));  // without digests
  read.push_back(read_bytes());
  CHECK(read[3] - read[2] == read[2] - read[1]);
}

}  // namespace

TEST_CASE("ENG-11: replicas compare digests of all weights, also of those that share frames") {
  for (const float clip_norm : {0.0f, 0.5f}) digest_all_weights(clip_norm);  // in one pass of two
}

TEST_CASE("ENG-11: of replicas the one with another bit in a frame that layers share is seen") {
  scratch dir;
  const swapped_job job{.type = gpu::dtype::bf16};
  auto three = sharing_frames(3, job, dir);
  std::vector<pending> forwards;
  for (size_t r = 0; r < 3; ++r) forwards.push_back(three.forward(r, 1));
  for (auto& f : forwards) f.get();
  auto& store = three.ranks[1]->model()->store();
  int last = -1;  // layer: whose weights forward has left in their frame
  for (int c = 0; c < store.chunk_count(); ++c)
    if (store.info(c).layer >= 0) last = c;
  REQUIRE(last >= 0);
  *static_cast<uint8_t*>(store.weight(last)) ^= 1;
  const auto told = finish_with_digests(three, 1);
  CHECK(told[0].digests == told[2].digests);
  for (int c = 0; c < store.chunk_count(); ++c) {
    const auto at = static_cast<size_t>(c);
    CHECK((told[1].digests[at] != told[0].digests[at]) == (c == last));
  }
}

TEST_CASE("ENG-11: what norms of summed gradients take is planned where they are noted so") {
  using rule = gpu::optimizer_step_args::rule;
  config::job job;
  job.train.batch = batch;
  job.train.seq_len = seq;
  job.cluster.node = {{"node0", "localhost", 1, false}};
  const auto overhead = [&](int ranks, rule kind) {
    auto o = options_for(0, ranks, kind, gpu::dtype::f32);
    o.model.vocab = 1 << 24;
    return process_overhead_bytes(job, o);
  };
  auto model = small_model();
  model.vocab = 1 << 24;
  const auto norms = gpu::norm_scratch_bytes("host", model);
  CHECK(norms > 4096);
  CHECK(overhead(2, rule::adamw) == overhead(2, rule::lamb));
  CHECK(overhead(1, rule::adamw) == overhead(1, rule::lamb));
  // What more replicas take for a longer vocabulary: of stages, too, whose gradients may be on a
  // drive by the time that all norms are known.
  const auto longer = [&](rank_grid grid) {
    auto o = options_for(0, 2, rule::lamb, gpu::dtype::f32);
    o.at.grid = grid;
    const auto before = process_overhead_bytes(job, o);
    o.model.vocab = 1 << 24;
    return process_overhead_bytes(job, o) - before;
  };
  const auto more = norms - gpu::norm_scratch_bytes("host", small_model());
  CHECK(more > 0);
  CHECK(longer({2, 1, 1}) == longer({1, 1, 1}) + more);
  CHECK(longer({2, 1, 2}) == longer({1, 1, 2}) + more);
}

TEST_CASE("SGB-2: what exchanges of ranks that share a GPU take of the host's memory is planned") {
  config::job job;
  job.train.batch = batch;
  job.train.seq_len = seq;
  job.cluster.node = {{"node0", "localhost", 1, false}};
  const auto overhead = [&](rank_grid grid, bool tied, gpu_place place, bool shared) {
    auto o = options_for(0, 2, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32);
    o.at.grid = grid;
    o.model.tied = tied;
    o.gpu_at = place;
    o.shared_devices = shared;
    return process_overhead_bytes(job, o);
  };
  // Of a rank, where it is one of two on its GPU: as the plan knows it, and as its worker does.
  const auto more = [&](rank_grid grid, bool tied) {
    constexpr uint64_t bytes = uint64_t{8} << 30;
    const auto alone = overhead(grid, tied, {bytes, 1}, false);
    const auto planned = overhead(grid, tied, {bytes, 2}, false) - alone;
    CHECK(overhead(grid, tied, {bytes, 1}, true) - alone == planned);
    CHECK(overhead(grid, tied, {}, true) == overhead(grid, tied, {}, false));  // on the host
    return planned / gpu::staging_bytes;
  };
  CHECK(more({1, 1, 1}, true) == 0);
  CHECK(more({2, 1, 1}, true) == 1);
  CHECK(more({1, 1, 2}, false) == 5);
  CHECK(more({1, 1, 2}, true) == 6);
  CHECK(more({2, 1, 2}, true) == 7);
}

TEST_CASE("ENG-9: a replica that waits for others' slices of weights ends when it is told to") {
  scratch dir;
  replicas two(2, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32, [&](engine_options o) {
    o = replica_options(std::move(o), {});
    o.swap_dirs = {dir.path};
    o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
    return replicas::plain(o);
  });
  auto alone = two.forward(0);
  CHECK_FALSE(alone.within(std::chrono::milliseconds(100)));  // the other one never comes
  two.ranks[0]->abort();
  const auto why = alone.why();
  CHECK((why.code == errc::unavailable || why.code == errc::cancelled));
}

TEST_CASE("ENG-9: a replica that waits for others' gradients ends when it is told to") {
  scratch dir;
  auto two = sharing_frames(2, {}, dir);
  std::vector<pending> forwards;
  for (size_t r = 0; r < 2; ++r) forwards.push_back(two.forward(r, 1));
  for (auto& f : forwards) f.get();
  auto alone = two.finish(0, 1);
  CHECK_FALSE(alone.within(std::chrono::milliseconds(100)));  // the other one never comes
  two.ranks[0]->abort();
  const auto why = alone.why();
  CHECK((why.code == errc::unavailable || why.code == errc::cancelled));
}

TEST_CASE("ENG-8: replicas whose chunks live in other places are refused before a step") {
  using change = std::function<void(gpu::residency&)>;
  const change nothing = [](gpu::residency&) {};
  // All of the chunk is in memory then, or its state is on the drive and nothing else.
  const change state_alone = [](gpu::residency& w) { w.chunks[3] = {-1, -1, true}; };
  struct unlike {
    const char* what;
    change both, second;
  };
  const std::vector<unlike> rows{
      {"weight_frame", nothing, [](gpu::residency& w) { w.chunks[3].weight_frame = -1; }},
      {"grad_frame", nothing, [](gpu::residency& w) { w.chunks[3].grad_frame = -1; }},
      {"state_on_disk", state_alone, [](gpu::residency& w) { w.chunks[3] = {}; }},
      {"speculates", nothing, [](gpu::residency& w) { w.speculates = true; }},
      {"derives_weights", nothing, [](gpu::residency& w) { w.derives_weights = true; }},
      {"gradients_on_disk", nothing, [](gpu::residency& w) { w.gradients_on_disk = true; }},
  };
  const swapped_job job{.type = gpu::dtype::bf16, .clip_norm = 0.5f};
  for (const auto& row : rows)
    for (const bool differ : {false, true}) {
      CAPTURE(row.what);
      CAPTURE(differ);
      scratch dir;
      replicas two(
          2, gpu::optimizer_step_args::rule::adamw, job.type,
          [&](engine_options o) {
            o = replica_options(std::move(o), job);
            o.swap_dirs = {dir.path};
            o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
            row.both(o.shape.where);
            if (differ && o.at.rank == 1) row.second(o.shape.where);
            return replicas::plain(o);
          },
          false);
      for (auto& one : two.connect())
        if (differ)
          CHECK(one.why().is(replicas_differ));
        else
          one.get();
    }
}

TEST_CASE("ENG-8: replicas on unlike machines plan by the least memory and have equal bits") {
  scratch dir;
  constexpr std::array threads{1, 16};  // whose products need other scratch
  const swapped_job job{.type = gpu::dtype::bf16, .clip_norm = 0.5f, .layers = 16};
  const auto on_machine = [&](engine_options o) {
    o = replica_options(std::move(o), job);
    o.threads = threads.at(static_cast<size_t>(o.at.rank));
    return o;
  };
  config::job settings;
  settings.job.name = "job";
  settings.train.batch = batch;
  settings.train.seq_len = seq;
  settings.cluster.node = {{"node0", "localhost", 1, false}, {"node1", "localhost", 1, false}};
  settings.checkpoint.ring_bytes = 1 << 20;
  settings.swap.dir = {dir / "swap"};
  std::vector<engine_options> alone;
  for (int rank = 0; rank < 2; ++rank)
    alone.push_back(
        on_machine(options_for(rank, 2, gpu::optimizer_step_args::rule::adamw, job.type)));
  settings.swap.host_bytes = static_cast<int64_t>(swap_floor_bytes(settings, alone[1]));
  const auto left = [&](const engine_options& o) { return swap_budget_bytes(settings, o); };
  REQUIRE(left(alone[1]) < left(alone[0]));
  for (auto& o : alone) REQUIRE(settle_swap(o, settings));
  REQUIRE(alone[0].shape.where != alone[1].shape.where);

  const auto trained = [&](bool swaps) {
    replicas two(2, gpu::optimizer_step_args::rule::adamw, job.type, [&](engine_options o) {
      o = on_machine(std::move(o));
      if (!swaps) return replicas::plain(o);
      o.swap_bytes = std::min(left(alone[0]), left(alone[1]));
      REQUIRE(settle_swap(o, settings));
      CHECK(o.shape.where == alone[1].shape.where);
      o.process_bytes = 0;  // both are in this one
      return replicas::plain(o);
    });
    swapped_outcome out;
    for (int64_t step = 1; step <= 3; ++step) out.losses.push_back(two.step(step));
    for (auto& rank : two.ranks) append_state(rank->model()->store(), out.state);
    return out;
  };
  const auto expected = trained(false);
  CHECK(expected.losses.back() < expected.losses.front());
  CHECK(trained(true) == expected);
}

namespace {

/// Layers go over behind that step. From step 9 on real times would decide.
void go_over_alike(gpu::clip_way way, int64_t behind) {
  scratch dir;
  using enum gpu::activation_choice;
  constexpr int steps = 7;
  const swapped_job job{.clip_norm = 0.5f, .activations = std::vector(5, spill)};
  const auto bytes_of = [](const gpu::step_traffic& t) {
    return t.whole().read_bytes + t.whole().written_bytes;
  };
  uint64_t planned = 0, chosen = 0;
  std::vector<int> told;  // which ranks say what they do
  std::array<std::vector<uint64_t>, 2> moved;
  const auto trained = [&](const swapped_job& of, bool swaps) {
    replicas two(2, gpu::optimizer_step_args::rule::adamw, of.type, [&](engine_options o) {
      o = replica_options(std::move(o), of);
      if (!swaps) return replicas::plain(o);
      o.swap_dirs = {dir.path};
      o.swap_clip = way;
      o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
      o.swap_rates = gpu::machine_rates{1e18, 0, 1e15, 1e15, 0, 1e18};  // no drive keeps that
      o.on_notice = [&told, rank = o.at.rank](const std::string&) { told.push_back(rank); };
      planned = bytes_of(gpu::traffic_of_step(o.model, o.shape, steps_of(o)));
      auto again = o.shape;
      std::replace(again.activations.begin(), again.activations.end(), spill, recompute);
      chosen = bytes_of(gpu::traffic_of_step(o.model, again, steps_of(o)));
      return replicas::plain(o);
    });
    swapped_outcome out;
    for (int64_t step = 1; step <= steps; ++step) {
      out.losses.push_back(two.step(step));
      for (size_t r = 0; swaps && r < 2; ++r) {
        await_drive(*two.ranks[r]);
        const auto facts = *two.ranks[r]->swap_facts();
        moved[r].push_back(facts.read_bytes + facts.written_bytes);
        CHECK(facts.recomputed_layers == (step > behind ? 5 : 0));
        CHECK(facts.spilled_layers == (step > behind ? 0 : 5));
      }
    }
    for (auto& rank : two.ranks) append_state(rank->model()->store(), out.state);
    return out;
  };
  auto all_kept = job;
  all_kept.activations.clear();
  const auto expected = trained(all_kept, false);
  CHECK(trained(job, true) == expected);
  CHECK(told == std::vector<int>{0});
  CHECK(chosen < planned);
  for (const auto& of : moved) {
    CHECK(of[2] - of[1] == planned);
    CHECK(of[6] - of[5] == chosen);
  }
}

}  // namespace

TEST_CASE("ENG-11 SRP-4: what tells nothing to one replica has no other one choose before it") {
  scratch dir;
  using enum gpu::activation_choice;
  const swapped_job job{.clip_norm = 0.5f, .activations = std::vector(5, spill)};
  replicas two(2, gpu::optimizer_step_args::rule::adamw, job.type, [&](engine_options o) {
    o = replica_options(std::move(o), job);
    o.swap_dirs = {dir.path};
    o.swap_clip = gpu::clip_way::hold;
    o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
    o.swap_rates = gpu::machine_rates{1e18, 0, 1e15, 1e15, 0, 1e18};  // no drive keeps that
    return replicas::plain(o);
  });
  for (int64_t step = 1; step <= 7; ++step) {
    std::vector<pending> updates;
    for (size_t r = 0; r < two.ranks.size(); ++r) {
      auto& rank = *two.ranks[r];
      op_order begin;
      if (step == 2 && r == 1) begin.pace = {work_pace::whole / 2};
      rank.run(begin, {});
      rank.run({pipeline_op::forward, 0, 0, 0, false, static_cast<uint64_t>(step)},
               [](const status&) {});
      if (step == 3 && r == 0) rank.were_held();
      updates.push_back(two.finish(r, step));
    }
    for (size_t r = 0; r < two.ranks.size(); ++r) {
      CAPTURE(step);
      CAPTURE(r);
      two.updated(r, step, updates[r]);
      // The steps 1, 4 and 5 tell of the drive.
      CHECK(two.ranks[r]->swap_facts()->recomputed_layers == (step > 5 ? 5 : 0));
    }
  }
}

TEST_CASE("ENG-11 SM-8: where their drives keep less, layers of all replicas compute again alike") {
  go_over_alike(gpu::clip_way::hold, 3);
  go_over_alike(gpu::clip_way::twice, 3);
}

namespace {

constexpr int none_on_drives = 1000;

/// Replicas that train with LAMB. Chunks from `first` on are on drives.
swapped_outcome train_lamb(int ranks, const swapped_job& job, gpu::clip_way way, int first) {
  constexpr int64_t group = 2048;
  scratch dir;
  gpu::step_traffic planned;
  replicas all(ranks, gpu::optimizer_step_args::rule::lamb, job.type, [&](engine_options o) {
    o = replica_options(std::move(o), job);
    o.optimizer.norm_elements = group;
    o.swap_dirs = {dir.path};
    o.swap_clip = way;
    o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
    const bool holds = way == gpu::clip_way::hold && job.clip_norm > 0;
    CHECK(gpu::keeps_gradients(o.shape.where) == holds);
    o.shape.where.group_elements = group;
    auto& chunks = o.shape.where.chunks;
    for (size_t c = 0; c < std::min(chunks.size(), static_cast<size_t>(first)); ++c) chunks[c] = {};
    planned = gpu::traffic_of_step(o.model, o.shape, steps_of(o));
    return replicas::plain(o);
  });
  auto& engine = *all.ranks.front();
  swapped_outcome out;
  uint64_t before = 0, after = 0;
  for (int64_t step = 1; step <= 4; ++step) {
    out.losses.push_back(all.step(step));
    if (!engine.swap_facts()) continue;
    await_drive(engine);
    before = std::exchange(after, engine.swap_facts()->read_bytes);
  }
  for (auto& rank : all.ranks) append_state(rank->model()->store(), out.state);
  CHECK(after - before == planned.whole().read_bytes);
  return out;
}

}  // namespace

TEST_CASE("ENG-11 OP-3: LAMB of replicas: norms are of all slices, wherever their state lies") {
  for (const int ranks : {2, 3})
    for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
      for (const float clip : {0.0f, 0.5f}) {
        CAPTURE(ranks);
        CAPTURE(clip);
        const swapped_job job{.type = type, .clip_norm = clip, .layers = 3, .lamb = true};
        const auto expected = train_lamb(ranks, job, gpu::clip_way::hold, none_on_drives);
        CHECK(expected.losses.back() < expected.losses.front());
        for (const auto way : {gpu::clip_way::hold, gpu::clip_way::automatic})
          for (const int first : {0, 3}) CHECK(train_lamb(ranks, job, way, first) == expected);
      }
}

}  // namespace troupe::train::test
