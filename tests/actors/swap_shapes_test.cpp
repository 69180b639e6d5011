// Random shapes of models at exactly the memory that their plan says they need: what an engine
// holds beyond its plan ends it. TROUPE_SHAPES=2000 tries more of them, from TROUPE_SHAPE_SEED on.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <random>

#include <fmt/format.h>

#include "actors/train/swap_folder.hpp"
#include "io/base/memory_account.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/save.hpp"
#include "tests/actors/replicas.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

using troupe::train::test::batch;
using troupe::train::test::replicas;
using rule = gpu::optimizer_step_args::rule;

int shapes_from(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// A job that is drawn.
struct shape_draw {
  explicit shape_draw(unsigned seed) : random(seed) {
    ranks = one_of({1, 1, 2, 3});
    type = chance() ? gpu::dtype::f32 : gpu::dtype::bf16;
    model = troupe::train::test::small_model();
    model.layers = one_of({1, 2, 3, 7});
    model.heads = model.kv_heads = one_of({1, 2, 4});
    model.head_width = one_of({8, 16, 64});
    model.hidden = model.heads * model.head_width;
    model.ffn = model.hidden * one_of({1, 3, 4}) + one_of({0, 8});
    model.vocab = one_of({37, 300, 5003, 20'011});
    if (chance()) {
      model.family = model_family::llama;
      model.activation = activation_kind::swiglu;
      model.attention_bias = model.output_bias = model.mlp_bias = false;
      model.tied = chance();
    }
    by_layer = ranks == 1 && chance();
    recompute = chance();
    clip_norm = chance() ? 0.05f : 0.0f;
    clip = std::array{config::clip_way::automatic, config::clip_way::hold, config::clip_way::twice,
                      config::clip_way::speculate}[static_cast<size_t>(one_of({0, 1, 2, 3}))];
    more_bytes = chance() ? 0 : one_of({100'000, 3'000'000, 30'000'000});
    links = chance();
    if (chance())
      for (int64_t i = 0; i < model.layers; ++i)
        activations.push_back(static_cast<gpu::activation_choice>(one_of({0, 1, 2, 3})));
  }
  int one_of(std::initializer_list<int> all) {
    return all.begin()[std::uniform_int_distribution<size_t>(0, all.size() - 1)(random)];
  }
  bool chance() { return one_of({0, 1}) == 1; }

  engine_options options(engine_options o) const {
    const auto replica = o.shape.replica;
    o.job = "job";
    o.model = model;
    o.shape = gpu::whole_model(model, by_layer ? 2 : batch / ranks, troupe::train::test::seq, type);
    o.shape.by_layer = by_layer;
    o.shape.slots = by_layer ? batch / 2 : 1;
    o.shape.recompute = recompute;
    o.shape.activations = activations;
    o.shape.replica = replica;
    o.optimizer.clip_norm = clip_norm;
    return o;
  }
  std::string text() const {
    std::string kept;
    for (const auto choice : activations) kept += fmt::format(" {}", to_string(choice));
    return fmt::format(
        "{} ranks, {} layers of {} heads of {}, ffn {}, vocab {}{}, {} bytes each{}{}"
        ", clip {} way {}, {} bytes more, links {}, layers:{}",
        ranks, model.layers, model.heads, model.head_width, model.ffn, model.vocab,
        model.tied ? " tied" : "", type == gpu::dtype::f32 ? 4 : 2, by_layer ? ", by layer" : "",
        recompute ? ", recomputed" : "", clip_norm, static_cast<int>(clip), more_bytes, links,
        kept);
  }

  std::mt19937 random;
  int ranks;
  gpu::dtype type;
  model_config model;
  bool by_layer, recompute;
  std::vector<gpu::activation_choice> activations;
  float clip_norm;
  config::clip_way clip;
  int more_bytes;
  bool links;
};

config::job job_of(const shape_draw& d, const scratch& dir) {
  config::job job;
  job.job.name = "job";
  job.train.batch = batch;
  job.train.seq_len = troupe::train::test::seq;
  job.cluster.node = {{"node0", "localhost", d.ranks, false}};
  job.checkpoint.ring_bytes = 1 << 20;
  job.checkpoint.dir = dir / "checkpoints";
  job.swap.dir = {dir / "swap"};
  job.swap.clip = d.clip;
  return job;
}

/// Two steps with a checkpoint between them, at the least memory or a little more.
void trains_within_its_plan(const shape_draw& d) {
  scratch dir;
  auto job = job_of(d, dir);
  const auto least = troupe::train::test::options_for(0, d.ranks, rule::adamw, d.type);
  job.swap.host_bytes =
      static_cast<int64_t>(swap_floor_bytes(job, d.options(least))) + d.more_bytes;
  std::filesystem::create_directory(job.checkpoint.dir);
  uint64_t budget = 0;
  replicas all(d.ranks, rule::adamw, d.type, [&](engine_options o) {
    o = d.options(std::move(o));
    if (d.links) o.checkpoint_folder = job.checkpoint.dir;
    const auto settled = settle_swap(o, job);
    REQUIRE_MESSAGE(settled, (settled ? "" : render(settled.error())));
    budget = o.process_bytes;
    return replicas::plain(o);
  });
  for (int64_t step = 1; step <= 2; ++step) {
    if (d.by_layer) {
      auto& engine = *all.ranks[0];
      const int together = static_cast<int>(batch) / 2;
      engine.run({pipeline_op::begin}, {});
      engine.run({pipeline_op::forward, 0, 0, 0, false, 0, together}, [](const status&) {});
      engine.run({pipeline_op::backward, 0, 0, 0, true, 0, together}, [](const status&) {});
      troupe::train::test::pending updated;
      engine.update(step, 1e-2, updated.outcome());
      all.updated(0, step, updated);
    } else {
      all.step(step);
    }
    if (step == 2) break;
    for (auto& rank : all.ranks) {
      std::promise<result<io::checkpoint::shard_facts>> told;
      const auto partial = std::filesystem::path(job.checkpoint.dir) /
                           io::checkpoint::partial_name(static_cast<uint64_t>(step), 0);
      rank->save(static_cast<uint64_t>(step), partial, false,
                 [&](const auto& vote) { told.set_value(vote); });
      const auto vote = told.get_future().get();
      REQUIRE_MESSAGE(vote, (vote ? "" : render(vote.error())));
    }
  }
  const auto held = io::process_memory().held();
  CHECK(held.held_bytes > 0);
  CHECK(held.held_bytes <= budget);
}

}  // namespace

TEST_CASE("ENG-11: any shape trains and saves in the memory that its plan says it needs") {
  const auto first = static_cast<unsigned>(shapes_from("TROUPE_SHAPE_SEED", 1));
  const auto count = static_cast<unsigned>(shapes_from("TROUPE_SHAPES", 20));
  for (auto seed = first; seed < first + count; ++seed) {
    const shape_draw d(seed);
    CAPTURE(seed);
    CAPTURE(d.text());
    trains_within_its_plan(d);
  }
}
