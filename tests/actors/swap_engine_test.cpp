// ENG-11: an engine whose stage is not all in memory computes what one computes whose is, to the
// bit: losses, norms, weights and moments.
#include "actors/train/rank_engine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "gpu/swap/step_traffic.hpp"
#include "io/swap/chunk_file.hpp"
#include "tests/actors/swapped_job.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::train::test {

TEST_CASE("ENG-11: swapped training has the bits of training in memory") {
  scratch dir;
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    for (const bool llama : {false, true})
      for (const bool by_layer : {false, true})
        for (const float clip : {0.0f, 0.05f, 100.0f}) {
          const swapped_job job{type, llama, by_layer, clip, 5, by_layer};
          INFO(text_of_job(job));
          const auto expected = train_where(job, in_memory);
          CHECK(expected.losses.back() < expected.losses.front());
          CHECK(train_where(job, least_memory(dir.path)) == expected);
          CHECK(train_where(job, speculating(dir.path)) == expected);
        }
}

TEST_CASE("ENG-11 SWP-18: so it has where weights have no files, however they are rounded") {
  scratch dir;
  const auto derived = [](const settle_where& where) -> settle_where {
    return [where](engine_options& o) {
      where(o);
      o.shape.where.derives_weights = true;
    };
  };
  const std::vector<std::optional<uint64_t>> roundings{std::nullopt, 17};
  for (const auto& rounding : roundings)
    for (const bool by_layer : {false, true})
      for (const float clip : {0.0f, 0.05f, 100.0f}) {
        swapped_job job{gpu::dtype::bf16, by_layer, by_layer, clip, 5, by_layer, rounding};
        INFO(text_of_job(job));
        const auto expected = train_where(job, in_memory);
        CHECK(train_where(job, derived(least_memory(dir.path, 2048))) == expected);
        uint64_t redone = 0;
        CHECK(train_where(job, derived(speculating(dir.path)), 4, &redone) == expected);
        if (clip == 0.05f) CHECK(redone > 0);
        job.by_layer = false;  // so that each rank has all of its rows at once
        const auto of_two = train_replicas(2, job, in_memory);
        CHECK(train_replicas(2, job, derived(least_memory(dir.path, 2048))) == of_two);
      }
}

TEST_CASE("ENG-11 SM-4: swapped training has the same bits whatever each layer keeps") {
  scratch dir;
  using enum gpu::activation_choice;
  const std::vector<gpu::activation_choice> mixed{half, keep, recompute, half, keep};
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    for (const bool by_layer : {false, true}) {
      swapped_job job{type, by_layer, by_layer, 0.05f};
      CAPTURE(text_of_job(job));
      const auto expected = train_where(job, in_memory);
      job.activations = mixed;
      CHECK(train_where(job, in_memory) == expected);
      CHECK(train_where(job, least_memory(dir.path)) == expected);
      CHECK(train_where(job, speculating(dir.path)) == expected);
      for (const auto& spilt :
           {std::vector{spill, half, spill, keep, spill}, std::vector(5, spill)}) {
        job.activations = spilt;
        CHECK(train_where(job, least_memory(dir.path)) == expected);
        CHECK(train_where(job, speculating(dir.path)) == expected);
      }
    }
}

TEST_CASE(
    "ENG-11 SWP-9: updates before their norm count where it allows, else they are made again") {
  scratch dir;
  constexpr int steps = 8;
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    for (const bool by_layer : {false, true}) {
      swapped_job job{type, false, by_layer, 0, 5, by_layer, 3};
      auto norms = train_where(job, in_memory, steps).norms;
      std::sort(norms.begin(), norms.end());
      job.clip_norm = static_cast<float>(norms[steps / 2]);  // some are above, some below
      CAPTURE(text_of_job(job));
      const auto expected = train_where(job, in_memory, steps);
      const auto above = std::count_if(expected.norms.begin(), expected.norms.end(),
                                       [&](double n) { return n > job.clip_norm; });
      REQUIRE(above > 0);
      REQUIRE(above < steps);
      for (const auto way : {gpu::clip_way::speculate, gpu::clip_way::automatic})
        for (const int64_t group : {1 << 20, 2048}) {
          uint64_t redone = 0;
          CHECK(train_where(job, speculating(dir.path, way, group, 2), steps, &redone) == expected);
          if (way == gpu::clip_way::speculate) CHECK(redone == static_cast<uint64_t>(above));
        }
    }
}

TEST_CASE("ENG-11: whatever the groups are, and however many are on their way") {
  scratch dir;
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16}) {
    const swapped_job job{type, false, true, 0.05f, 3};
    const auto expected = train_where(job, in_memory);
    for (const int64_t group : {1, 2048, 4096})
      for (const int groups : {1, 2, 5}) {
        CAPTURE(group);
        CAPTURE(groups);
        CHECK(train_where(job, least_memory(dir.path, group, groups)) == expected);
      }
  }
}

TEST_CASE("ENG-11 OP-4: LAMB, whose norms are of whole tensors") {
  scratch dir;
  const auto shaped =
      swap_engine_options(options_for(0, 1, gpu::optimizer_step_args::rule::lamb, gpu::dtype::f32),
                          {.layers = 3, .lamb = true});
  for (const auto& chunk : gpu::stage_chunks(shaped.model, shaped.shape)) {
    const io::chunk_file file(chunk.count, lamb_group, io::chunk_weights::masters);
    if (chunk.layer < 0) continue;
    REQUIRE(file.groups() == 2);
    REQUIRE(file.group_elements() < lamb_group);
  }
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    for (const float clip : {0.0f, 0.05f}) {
      swapped_job job{type, false, true, clip, 3};
      job.lamb = true;
      INFO(text_of_job(job));
      const auto expected = train_where(job, in_memory);
      CHECK(expected.losses.back() < expected.losses.front());
      for (const int groups : {1, 3})
        CHECK(train_where(job, least_memory(dir.path, lamb_group, groups)) == expected);
      CHECK(train_where(job, speculating(dir.path, gpu::clip_way::speculate, lamb_group)) ==
            expected);
    }
}

TEST_CASE("ENG-11: at every budget from the least to all of it") {
  scratch dir;
  for (const float clip : {0.0f, 0.05f}) {
    const swapped_job job{gpu::dtype::bf16, true, false, clip, 16, false, 17};
    const auto expected = train_where(job, in_memory);
    using rule = gpu::optimizer_step_args::rule;
    const auto o = swap_engine_options(options_for(0, 1, rule::adamw, job.type), job);
    const auto all = gpu::plan_stage(o.model, o.shape).total();
    gpu::residency last;
    int kinds = 0;
    for (uint64_t bytes = all / 64; bytes < all; bytes += all / 64) {
      const auto planned = gpu::plan_residency(o.model, o.shape, {bytes, clip > 0, 1});
      if (!planned || *planned == last) continue;
      last = *planned;
      ++kinds;
      CHECK(train_where(job, [&](engine_options& e) {
              e.swap_dirs = {dir.path};
              e.shape.where = last;
            }) == expected);
    }
    CHECK(kinds >= 2);
  }
}

TEST_CASE("ENG-11 SWP-14: rows of a token table come before the rest of it, and no bit differs") {
  scratch dir;
  const auto large = [](const settle_where& where) -> settle_where {
    return [where](engine_options& o) {
      o.model.vocab = 24'000;
      where(o);
    };
  };
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    for (const bool by_layer : {false, true})
      for (const float clip : {0.0f, 0.05f}) {
        const swapped_job job{type, by_layer, by_layer, clip, 3};
        INFO(text_of_job(job));
        const auto expected = train_where(job, large(in_memory));
        std::array<uint64_t, 2> read{};
        for (const bool awaits : {false, true}) {  // who awaits a state leaves no update for rows
          auto one = engine_where(job, large(least_memory(dir.path, 1 << 16)));
          auto& engine = *one.ranks.front();
          swapped_outcome out;
          for (int64_t step = 1; step <= 4; ++step) {
            const auto told = make_step(engine, job, step);
            out.losses.push_back(told.loss_sum);
            out.norms.push_back(told.grad_norm);
            if (awaits) await_drive(engine);
          }
          append_state(engine.model()->store(), out.state);
          CHECK(out == expected);
          read[awaits ? 1 : 0] = engine.swap_facts()->read_bytes;
        }
        CHECK(read[0] > read[1]);  // by the rows
      }
}

TEST_CASE("traffic of a step: what is planned is what moves, to the byte") {
  scratch dir;
  using enum gpu::activation_choice;
  for (const auto& job :
       {swapped_job{}, swapped_job{.clip_norm = 1}, swapped_job{.by_layer = true, .clip_norm = 1},
        swapped_job{.type = gpu::dtype::bf16, .llama = true, .clip_norm = 1},
        swapped_job{.type = gpu::dtype::bf16, .layers = 3},
        swapped_job{.clip_norm = 100, .lamb = true},
        swapped_job{.clip_norm = 1, .activations = {spill, half, spill, keep, spill}},
        swapped_job{.by_layer = true, .clip_norm = 1, .activations = std::vector(5, spill)}})
    for (const auto way : {gpu::clip_way::twice, gpu::clip_way::hold, gpu::clip_way::speculate}) {
      CAPTURE(text_of_job(job));
      const bool holds = way == gpu::clip_way::hold;
      CAPTURE(holds);
      gpu::step_traffic planned;
      auto one = engine_where(job, [&](engine_options& o) {
        least_memory(dir.path, job.lamb ? lamb_group : 4096, 2)(o);
        if (holds)
          for (auto& c : o.shape.where.chunks) c.grad_frame = -1;
        o.shape.where.speculates = way == gpu::clip_way::speculate;
        o.swap_clip = way;
        gpu::residency_budget steps{0, o.optimizer.clip_norm > 0, o.shape.slots};
        steps.measures = job.lamb;
        planned = gpu::traffic_of_step(o.model, o.shape, steps);
      });
      auto& engine = *one.ranks.front();
      gpu::phase_traffic before, after;
      for (int64_t step = 1; step <= 3; ++step) {
        const auto told = make_step(engine, job, step);
        CHECK(told.process_peak_bytes > 0);
        await_drive(engine);
        const auto facts = engine.swap_facts();
        REQUIRE(facts);
        before = std::exchange(after, {facts->read_bytes, facts->written_bytes});
      }
      const auto moved = planned.whole();
      CHECK(after.read_bytes - before.read_bytes == moved.read_bytes);
      CHECK(after.written_bytes - before.written_bytes == moved.written_bytes);
      CHECK(planned.passes == (job.clip_norm > 0 && way == gpu::clip_way::twice ? 2 : 1));
    }
}

TEST_CASE("ENG-11 SM-8: where the drive keeps less, layers compute again, and no bit differs") {
  scratch dir;
  using enum gpu::activation_choice;
  // Six of either way, and three that tell of the drive. From step 22 on real times would decide.
  constexpr int steps = 20;
  const swapped_job job_of[] = {
      {.activations = std::vector(5, spill)},
      {.clip_norm = 100, .activations = {spill, half, spill, spill, keep}},
      {.type = gpu::dtype::bf16,
       .llama = true,
       .by_layer = true,
       .clip_norm = 100,
       .activations = std::vector(5, spill)}};
  for (const auto& job : job_of)
    for (const bool speculates : {false, true}) {
      CAPTURE(text_of_job(job));
      CAPTURE(speculates);
      std::vector<std::string> told;
      gpu::step_traffic planned, chosen;
      auto one = engine_where(job, [&](engine_options& o) {
        if (speculates)
          speculating(dir.path)(o);
        else
          least_memory(dir.path)(o);
        o.swap_rates = gpu::machine_rates{1e18, 0, 1e15, 1e15, 0, 1e18};  // no drive keeps that
        o.on_notice = [&](const std::string& text) { told.push_back(text); };
        const auto budget = steps_of(o);
        planned = gpu::traffic_of_step(o.model, o.shape, budget);
        auto again = o.shape;
        std::replace(again.activations.begin(), again.activations.end(), spill, recompute);
        chosen = gpu::traffic_of_step(o.model, again, budget);
      });
      auto& engine = *one.ranks.front();
      swapped_outcome out;
      std::vector<uint64_t> moved{0};
      for (int64_t step = 1; step <= steps; ++step) {
        const auto outcome = make_step(engine, job, step);
        out.losses.push_back(outcome.loss_sum);
        out.norms.push_back(outcome.grad_norm);
        await_drive(engine);
        const auto facts = *engine.swap_facts();
        moved.push_back(facts.read_bytes + facts.written_bytes);
      }
      append_state(engine.model()->store(), out.state);
      auto all_kept = job;
      all_kept.activations.clear();
      CHECK(out == train_where(all_kept, in_memory, steps));
      const auto sum = [](const gpu::phase_traffic& t) { return t.read_bytes + t.written_bytes; };
      CHECK(moved[10] - moved[9] == sum(planned.whole()));
      CHECK(moved[steps] - moved[steps - 1] == sum(chosen.whole()));
      CHECK(sum(chosen.whole()) < sum(planned.whole()));
      const auto spilling = std::count(job.activations.begin(), job.activations.end(), spill);
      CHECK(engine.swap_facts()->recomputed_layers == spilling);
      CHECK(engine.swap_facts()->spilled_layers == 0);
      REQUIRE(told.size() == 1);
      CHECK(told.front().find("recomputed now instead of swapped") != std::string::npos);
    }
}

TEST_CASE("traffic of a step: a stage that is ahead by a pass uses fewer weights twice") {
  model_config model = small_model();
  model.layers = 6;
  auto shape = gpu::whole_model(model, 1, 4, gpu::dtype::bf16);
  const auto weights_read = [&](int64_t slots) {
    constexpr int64_t micro_batches = 3;
    shape.slots = slots;
    const gpu::residency_budget steps{0, true, micro_batches, gpu::clip_way::hold};
    shape.where = gpu::least_residency(model, shape, steps);
    shape.where.gradients_on_disk = false;  // of weights and state alone
    for (auto& c : shape.where.chunks) c.grad_frame = -1;
    const auto all = gpu::traffic_of_step(model, shape, steps);
    uint64_t state = 0;
    for (const auto& chunk : gpu::stage_chunks(model, shape))
      state += gpu::swap_layout(gpu::slice_of(chunk.count, {}), shape.where, gpu::dtype::bf16)
                   .state_bytes();
    return all.whole().read_bytes - state;
  };
  // In two frames two layers stay where a pass turns round: F B F B F B, F F B F B B, F F F B B B.
  const auto one = weights_read(1) / (6 * 6 - 5 * 2);
  CHECK(one > 0);
  CHECK(weights_read(1) == (6 * 6 - 5 * 2) * one);
  CHECK(weights_read(2) == (6 * 6 - 3 * 2) * one);
  CHECK(weights_read(3) == (6 * 6 - 1 * 2) * one);
}

TEST_CASE("SM-6 SPO-3: by layer, what forward leaves in its frames is not read for backward") {
  model_config model = small_model();
  constexpr int64_t layers = 6;
  model.layers = layers;
  auto shape = gpu::whole_model(model, 1, 4, gpu::dtype::bf16);
  shape.by_layer = true;
  for (const int64_t slots : {1, 2, 3, 4, 5}) {
    CAPTURE(slots);
    shape.slots = slots;
    const gpu::residency_budget steps{0, false, slots};
    const auto read = [&](gpu::activation_choice what) {
      shape.activations.assign(layers, what);
      shape.where = gpu::least_residency(model, shape, steps);
      return gpu::traffic_of_step(model, shape, steps).whole().read_bytes;
    };
    const auto without = read(gpu::activation_choice::recompute);
    const auto spilt = read(gpu::activation_choice::spill) - without;
    const auto records = static_cast<uint64_t>(layers * slots);
    const auto one = gpu::plan_stage(model, shape).spill_bytes / records;
    REQUIRE(one > 0);
    CHECK(spilt == (records - 2) * one);  // there are two frames
  }
}

TEST_CASE("a swap folder goes with its engine, and is no other process's meanwhile") {
  scratch dir;
  const swapped_job job;
  const auto there = [&] { return !std::filesystem::is_empty(dir.path); };
  {
    replicas one(1, gpu::optimizer_step_args::rule::adamw, job.type, [&](engine_options o) {
      o = swap_engine_options(std::move(o), job);
      least_memory(dir.path)(o);
      return replicas::plain(o);
    });
    CHECK(there());
    // Another process of the same rank does not get the folder.
    auto second = swap_folders::make({.dirs = {dir.path}, .job = "", .rank = 0});
    REQUIRE_FALSE(second);
    CHECK(second.error().is(io::folder_in_use));
  }
  CHECK_FALSE(there());
}

namespace {

status check_swap_room(const std::filesystem::path& dir, uint64_t bytes,
                       const beside_swap& checkpoints = {}) {
  TROUPE_TRY(room, swap_room_of(dir, bytes, checkpoints));
  return check_room(room);
}

}  // namespace

TEST_CASE("folders on one drive need its room together") {
  scratch dir;
  constexpr uint64_t some = uint64_t{1} << 20;
  const auto rooms = swap_rooms_of({{dir / "a", some}, {dir / "b", 2 * some}, {dir / "c/d", some}},
                                   {dir / "checkpoints", 5 * some});
  REQUIRE(rooms);
  REQUIRE(rooms->size() == 1);
  CHECK(rooms->front().swap_bytes == 4 * some);
  CHECK(rooms->front().checkpoint_bytes == 5 * some);
  CHECK(check_room(rooms->front()));
  auto full = rooms->front();
  full.free_bytes = 9 * some - 1;
  CHECK_FALSE(check_room(full));
  CHECK_FALSE(swap_rooms_of({{dir / "a", some}, {"/dev/shm/b", some}}, {}));  // memory
}

TEST_CASE("a rank's folders bear its number where swap.dir says so") {
  config::job job;
  job.swap.dir = {"/nvme{rank}/swap", "/other"};
  CHECK(swap_dirs_of(job, 13) == std::vector<std::filesystem::path>{"/nvme13/swap", "/other"});
}

TEST_CASE("ENG-11: on several drives swapped training has the bits of training in memory") {
  scratch dir;
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    for (const float clip : {0.0f, 0.05f}) {
      const swapped_job job{type, false, true, clip, 5};
      const auto expected = train_where(job, in_memory);
      const auto on_three = [&](engine_options& o) {
        speculating(dir / "one")(o);
        o.swap_dirs = {dir / "one", dir / "two", dir / "three"};
      };
      CHECK(train_where(job, on_three) == expected);
      auto one = engine_where(job, on_three);
      for (const auto* name : {"one", "two", "three"}) {
        size_t files = 0;
        for (const auto& f : std::filesystem::recursive_directory_iterator(dir / name))
          files += f.path().filename().string().starts_with("chunk-") ? 1 : 0;
        CHECK(files >= 2);  // two versions
      }
    }
}

TEST_CASE("a swap folder is refused on memory, and where there is too little room for it") {
  scratch dir;
  CHECK(check_swap_room(dir / "not/there/yet", 4096));
  const auto full = check_swap_room(dir.path, uint64_t{1} << 60);
  REQUIRE_FALSE(full);
  CHECK(full.error().is(swap_lacks_room));
  CHECK(check_swap_room(dir.path, 4096, {dir / "checkpoints", 4096}));
  const auto both = check_swap_room(dir.path, 4096, {dir / "checkpoints", uint64_t{1} << 60});
  REQUIRE_FALSE(both);
  CHECK(is_error(both.error(), swap_lacks_room, "checkpoints"));
  const auto room = swap_room_of(dir.path, 4096, {dir / "checkpoints", 100});
  REQUIRE(room);
  CHECK(room->checkpoint_bytes == 100);
  CHECK(room->free_bytes > 0);
  CHECK(room->fits());
  CHECK_FALSE(swap_room{10, 5, 14}.fits());
  CHECK_FALSE(swap_room{10, 5, 14}.must_consume());
  CHECK(swap_room{10, 0, 9}.must_consume());
  std::filesystem::create_directories(dir / "step");
  std::ofstream(dir / "step" / "rank-00000.chunk-00003.shard") << "12345";
  std::ofstream(dir / "step" / "rank-00000.shard") << "1";
  CHECK(takeable_bytes(dir / "swap", dir / "step") == 5);
  CHECK(takeable_bytes("/proc/self", dir / "step") == 0);
  config::job job;
  job.checkpoint.dir = "c";
  job.train.steps = 100;
  CHECK(checkpoints_beside(job, 10, 0).bytes == 10);  // the last one alone
  CHECK(checkpoints_beside(job, 10, 8).bytes == 2);   // which takes what is there
  job.checkpoint.every = 10;
  CHECK(checkpoints_beside(job, 10, 0).bytes == 100);
  CHECK(checkpoints_beside(job, 10, 8).bytes == 92);
  job.checkpoint.keep = 2;
  CHECK(checkpoints_beside(job, 10, 0).bytes == 30);
  CHECK(checkpoints_beside(job, 10, 8).bytes == 30);
  if (!std::filesystem::exists("/dev/shm")) return;
  const auto memory = check_swap_room("/dev/shm/swap", 4096);
  REQUIRE_FALSE(memory);
  CHECK(memory.error().is(swap_is_memory));
}

TEST_CASE("the model that a job leaves at its end has room on the drive, too, or is refused it") {
  scratch dir;
  config::job job;
  job.job.output = (dir / "run").string();
  auto model = model_config::of(model_family::gpt2);
  model.layers = 2;
  model.hidden = 64;
  model.vocab = 100;
  const auto parameters = static_cast<uint64_t>(model.parameters());
  const auto exported = [&] {
    beside_swap out{dir / "checkpoints", 100};
    add_export(out, job, model);
    return out;
  };
  CHECK(exported().export_bytes == 4 * parameters);
  const auto room = swap_room_of(dir / "swap", 4096, exported());
  REQUIRE(room);
  CHECK(room->needed_bytes() == 4096 + 100 + 4 * parameters);
  auto full = *room;
  full.free_bytes = room->needed_bytes() - 1;
  CHECK(check_room(full).error().is(swap_lacks_room));
  CHECK(mentions(check_room(full).error(), "checkpoint.export_model=false"));
  full.export_bytes = 0;
  CHECK(check_room(full));
  auto elsewhere = exported();
  elsewhere.export_dir = "/proc/self";
  CHECK(swap_room_of(dir / "swap", 4096, elsewhere)->export_bytes == 0);

  std::filesystem::create_directories(dir / "hub");
  std::ofstream(dir / "hub" / "config.json")
      << R"({"model_type": "gpt2", "n_layer": 2, "n_head": 1, "n_embd": 64, "vocab_size": 100,)"
      << R"( "n_positions": 64, "torch_dtype": "bfloat16"})";
  job.model.path = (dir / "hub").string();
  CHECK(exported().export_bytes == 2 * parameters);
  job.checkpoint.export_model = false;
  CHECK(exported().export_bytes == 0);
  job.checkpoint.export_model = true;
  job.cluster.launch = config::launch_mode::external;  // it is written on another machine
  CHECK(exported().export_bytes == 0);
}

TEST_CASE("a rank's share of swap.host_bytes is what its process leaves over") {
  config::job job;
  job.cluster.node = {{"node0", "localhost", 1, false}};
  job.swap.dir = {"swap"};
  settle_host_bytes(job, 1000);
  CHECK(job.swap.host_bytes == 800);
  engine_options o;
  o.model = swap_engine_options(
                options_for(0, 1, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32), {})
                .model;
  CHECK(swap_budget_bytes(job, o) == 0);
  job.swap.host_bytes = static_cast<int64_t>(process_overhead_bytes(job, o)) + 12'345;
  settle_host_bytes(job, 1000);
  CHECK(swap_budget_bytes(job, o) == 12'345);
  job.cluster.node.push_back({"node1", "localhost", 1, false});
  for (const auto launch : {config::launch_mode::local, config::launch_mode::ssh}) {
    job.cluster.launch = launch;
    job.swap.host_bytes = 0;
    settle_host_bytes(job, 1000);
    CHECK(job.swap.host_bytes == (launch == config::launch_mode::local ? 400 : 800));
  }
}

}  // namespace troupe::train::test
