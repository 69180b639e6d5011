// Training with state and weights on disk on the CUDA back end: the bits of training in the GPU's
// memory, by way of page-locked slots, since the host cannot address what is on the device.
#include <doctest/doctest.h>

#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "gpu/swap/memory_split.hpp"
#include "io/base/memory_account.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/gpu/cuda_any.hpp"
#include "tests/gpu/swap_trainer.hpp"

namespace troupe::gpu {
namespace {

using testing::swap_case;
using testing::swap_trainer;

constexpr int steps_of_test = 4;

/// A disk in memory that answers when and in what order it likes.
swap_options on_unruly_disk(unsigned seed) {
  swap_options o;
  o.places = {{"/swap"}};
  o.io.piece_bytes = io::disk_block;
  o.io.depth = 3;
  o.io.open_disk = [seed](size_t depth) -> result<std::unique_ptr<io::disk>> {
    io::faulty_options how;
    how.depth = depth;
    how.seed = seed;
    how.reorder = true;
    how.short_move = 0.2;
    auto made = std::make_unique<io::faulty_disk>(io::crash_store::make(uint64_t{64} << 20), how);
    TROUPE_TRY(there, made->make_dir("/swap"));
    REQUIRE(there);
    return std::unique_ptr<io::disk>(std::move(made));
  };
  return o;
}

/// What holders have whose names begin so.
uint64_t held_by(const io::memory_account& account, std::initializer_list<std::string_view> names) {
  uint64_t out = 0;
  for (const auto& h : account.held().holders)
    for (const auto name : names) out += h.holder.starts_with(name) ? h.bytes : 0;
  return out;
}

/// A stage with its files, and activations that it spills.
struct swapping_stage {
  std::unique_ptr<stage_model> model;
  std::unique_ptr<swapper> swap;
  std::unique_ptr<spiller> spill;

  static result<swapping_stage> make(device& gpu, const model_config& model,
                                     const stage_shape& shape) {
    swapping_stage out;
    TROUPE_TRY(stage, stage_model::make(gpu, model, shape));
    out.model = std::move(stage);
    TROUPE_TRY(swap, swapper::make(out.model->store(), shape.where, on_unruly_disk(1)));
    out.swap = std::move(swap);
    if (shape.spilling().empty()) return out;
    const spill_options there{{"/swap/activations"}, true, {}};
    TROUPE_TRY(spill, spiller::make(gpu, *out.model, out.swap->io(), there));
    out.spill = std::move(spill);
    return out;
  }
};

stage_shape shape_of_split(const model_config& model, dtype type, bool spills) {
  auto shape = whole_model(model, 2, 7, type);
  if (spills)
    shape.activations.assign(static_cast<size_t>(shape.layers()), activation_choice::spill);
  residency_budget budget{0, false, 1};
  budget.host_bytes = 0;
  shape.where = least_residency(model, shape, budget);
  shape.where.group_elements = 2048;
  return shape;
}

}  // namespace

TEST_CASE("cuda: TWN-1: what is booked of both memories is what was planned, and what is gone") {
  auto gpu = testing::any_gpu();
  if (!gpu) return;
  auto& of_gpu = io::device_memory(0);
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const bool spills : {false, true})
      for (const bool speculates : {false, true})
        for (const auto& [shares, stores, derives] :
             {std::tuple(false, false, false), std::tuple(true, false, false),
              std::tuple(true, true, false), std::tuple(true, false, true),
              std::tuple(false, false, true)}) {
          auto model = testing::tiny_gpt2();
          model.layers = 5;  // in two frames
          auto shape = shape_of_split(model, type, spills);
          shape.where.speculates = speculates;
          shape.where.gradients_on_disk = stores;
          shape.where.derives_weights = derives;
          REQUIRE(shape.where.gradient_on_disk(2) == stores);  // the first layer, behind two tables
          for (auto& chunk : shape.where.chunks)
            if (!shares) chunk.weight_frame = chunk.grad_frame = -1;
          const auto planned = split_of(model, shape);
          const auto held = of_gpu.held().held_bytes;
          [[maybe_unused]] const auto free = gpu->facts().free_bytes;
          const auto twins = [] {
            return held_by(io::process_memory(), {"state on its way", "activations on their way"});
          };
          const auto twins_before = twins();
          {
            const auto made = swapping_stage::make(*gpu, model, shape);
            REQUIRE_MESSAGE(made, (made ? std::string() : render(made.error())));
            CHECK(of_gpu.held().held_bytes - held == planned.device_bytes);
#if defined(TROUPE_CUDA_EMULATED)  // a real one gives whole pages
            CHECK(free - gpu->facts().free_bytes == planned.device_bytes);
#endif
            auto none = shape.where;  // but for a group that a checkpoint reads meanwhile
            none.groups_in_memory = 0;
            none.derives_weights = false;
            const auto later =
                swap_sizes_of(stage_chunks(model, shape), none, type, {}).slots_bytes;
            CHECK(twins() - twins_before == planned.host_bytes - later);
          }
          CHECK(of_gpu.held().held_bytes == held);
          CHECK(twins() == twins_before);
#if defined(TROUPE_CUDA_EMULATED)
          CHECK(gpu->facts().free_bytes == free);
#endif
        }
}

TEST_CASE("cuda: MAC-4: beyond its budget a GPU is asked for nothing, and who holds it is said") {
  auto gpu = testing::any_gpu();
  if (!gpu) return;
  const auto model = testing::tiny_gpt2();
  const auto shape = shape_of_split(model, dtype::f32, true);
  const auto planned = split_of(model, shape);
  auto &of_gpu = io::device_memory(0), &of_host = io::process_memory();
  const auto device = of_gpu.held().held_bytes, host = of_host.held().held_bytes;
  {
    const auto enough = of_gpu.limit_to(device + planned.device_bytes);
    const auto twins = of_host.limit_to(host + planned.host_bytes);
    CHECK(swapping_stage::make(*gpu, model, shape));
  }
  {
    const auto less = of_gpu.limit_to(device + planned.device_bytes - 1);
    const auto made = swapping_stage::make(*gpu, model, shape);
    REQUIRE_FALSE(made);
    CHECK(made.error().is(io::device_memory_used_up));
    for (const auto* holder : {"state on its way", "weights: ", "gradients: ", "activations"})
      CHECK(made.error().message.find(holder) != std::string::npos);
  }
  const auto less = of_host.limit_to(host);
  const auto made = swapping_stage::make(*gpu, model, shape);
  REQUIRE_FALSE(made);
  CHECK(made.error().is(io::memory_used_up));
  CHECK(of_gpu.held().held_bytes == device);
  CHECK(of_host.held().held_bytes == host);
}

TEST_CASE("cuda: RSP-4: whatever the two budgets, the bits are those of the GPU's memory") {
  auto gpu = testing::any_gpu();
  if (!gpu) return;
  for (const auto type : {dtype::f32, dtype::bf16}) {
    swap_case c{testing::tiny_gpt2(), type};
    c.model.layers = 8;
    const auto expected = swap_trainer(*gpu, c, {}).train(steps_of_test);
    const auto shape = whole_model(c.model, 2, 7, type);
    residency_budget budget{0, false, 1};
    budget.host_bytes = 0;
    auto with = shape;
    with.where = least_residency(c.model, shape, budget);
    const auto least = split_of(c.model, with);
    const auto all = plan_stage(c.model, shape).total();
    REQUIRE(least.device_bytes < all);
    size_t plans = 0;
    for (const auto device : {least.device_bytes, (least.device_bytes + all) / 2, all - 1})
      for (const auto host : {least.host_bytes, 3 * least.host_bytes}) {
        budget.bytes = device;
        budget.host_bytes = host;
        const auto planned = plan_residency(c.model, shape, budget);
        REQUIRE(planned);
        REQUIRE(planned->any_on_disk());
        c.where = *planned;
        swap_trainer swapped(*gpu, c, on_unruly_disk(static_cast<unsigned>(++plans)));
        CHECK(swapped.train(steps_of_test) == expected);
        CHECK(swapped.failure());
      }
  }
}

TEST_CASE("cuda: SWP-1 SWP-2 SWP-3: with state on disk the bits are those of the GPU's memory") {
  auto gpu = testing::any_gpu();
  if (!gpu) return;
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const auto& model : {testing::tiny_gpt2(), testing::tiny_llama()}) {
      swap_case c{model, type};
      const auto expected = swap_trainer(*gpu, c, {}).train(steps_of_test);
      for (unsigned seed = 1; seed <= 4; ++seed) {
        CAPTURE(seed);
        c.groups = 1 + static_cast<int>(seed % 3);
        c.shares_frames = seed % 2 == 0;
        c.spills = seed > 2;
        swap_trainer swapped(*gpu, c, on_unruly_disk(seed));
        CHECK(swapped.train(steps_of_test) == expected);
        CHECK(swapped.failure());
      }
    }
}

TEST_CASE("cuda: SWP-18: weights that are rounded from masters on the GPU have their bits") {
  auto gpu = testing::any_gpu();
  if (!gpu) return;
  for (const bool by_chance : {false, true}) {
    swap_case c{testing::tiny_llama(), dtype::bf16};
    if (by_chance) c.rounding = 7;
    const auto expected = swap_trainer(*gpu, c, {}).train(steps_of_test);
    c.derives_weights = true;
    for (unsigned seed = 1; seed <= 3; ++seed) {
      CAPTURE(seed);
      c.groups = static_cast<int>(seed);
      swap_trainer swapped(*gpu, c, on_unruly_disk(seed));
      CHECK(swapped.train(steps_of_test) == expected);
      CHECK(swapped.failure());
    }
  }
}

TEST_CASE("cuda: SWP-17: gradients that leave the GPU for a disk come back with their bits") {
  auto gpu = testing::any_gpu();
  if (!gpu) return;
  for (const auto type : {dtype::f32, dtype::bf16}) {
    swap_case c{testing::tiny_gpt2(), type};
    c.model.layers = 5;  // in two frames
    c.micro_batches = 3;
    const auto expected = swap_trainer(*gpu, c, {}).train(steps_of_test);
    for (unsigned seed = 1; seed <= 3; ++seed) {
      CAPTURE(seed);
      swap_trainer swapped(*gpu, c, on_unruly_disk(seed));
      CHECK(swapped.train(steps_of_test) == expected);
      CHECK(swapped.failure());
    }
  }
}

TEST_CASE("cuda: SM-8: whether a layer's backward computes again is no matter of a replay before") {
  auto gpu = testing::any_gpu();
  if (!gpu) return;
  constexpr std::array from{0, 0, 0, 5, 5, 5, 0, 3, 3, 3, 5, 0};  // replays come with the third
  for (const auto type : {dtype::f32, dtype::bf16}) {
    swap_case c{testing::tiny_gpt2(), type};
    c.model.layers = 5;  // in two frames
    const auto expected = swap_trainer(*gpu, c, {}).train(static_cast<int>(from.size()));
    c.spills = true;
    swap_trainer swapped(*gpu, c, on_unruly_disk(7));
    for (size_t i = 0; i < from.size(); ++i) {
      swapped.spill_from(from[i]);
      swapped.enqueue_step(static_cast<int64_t>(i) + 1);
    }
    swapped.wait();
    CHECK(swapped.state() == expected);
    CHECK(swapped.failure());
  }
}

TEST_CASE("cuda: SWP-9: updates that are dropped leave the bits of steps that never made them") {
  auto gpu = testing::any_gpu();
  if (!gpu) return;
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const bool shares : {true, false}) {
      swap_case c{testing::tiny_gpt2(), type};
      c.shares_frames = shares;
      const auto expected = swap_trainer(*gpu, c, {}).train(steps_of_test);
      c.speculates = true;
      for (unsigned seed = 1; seed <= 3; ++seed) {
        CAPTURE(seed);
        swap_trainer swapped(*gpu, c, on_unruly_disk(seed));
        for (int step = 1; step <= steps_of_test; ++step)
          swapped.enqueue_speculating_step(step, (seed >> (step % 2)) % 2 == 0);
        swapped.wait();
        CHECK(swapped.state() == expected);
        CHECK(swapped.failure());
      }
    }
}

}  // namespace troupe::gpu
