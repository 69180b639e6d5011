// Training with state and weights on disk on the CUDA back end: the bits of training in the GPU's
// memory, by way of page-locked slots, since the host cannot address what is on the device.
#include <doctest/doctest.h>

#include <array>

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

}  // namespace

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
