// Weights in bfloat16 that have no files of their own: rounded from masters whenever they are read,
// they have the bits that the last update gave them.
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/swap/memory_split.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "io/base/memory_account.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/faulty_swap.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/swap_trainer.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/turn_bit.hpp"

namespace troupe::gpu {
namespace {

using testing::swap_case;
using testing::swap_trainer;

constexpr int steps_of_weights_test = 4;

swap_case without_weight_files(model_config model, std::optional<uint64_t> rounding) {
  swap_case c{std::move(model), dtype::bf16};
  c.model.layers = 3;
  c.derives_weights = true;
  c.rounding = rounding;
  return c;
}

swap_options with_files_in(const scratch& dir) {
  swap_options o;
  o.places = {{dir.path}};
  return o;
}

swap_options on_unsteady_disk(unsigned seed) {
  io::faulty_options how;
  how.seed = seed;
  how.reorder = true;
  how.short_move = 0.2;
  how.interrupted = 0.1;
  return testing::on_faulty_disk(std::move(how));
}

const std::vector<std::optional<uint64_t>> both_roundings{std::nullopt, 7};

/// The chunk's weights as they are in its frame now.
std::vector<uint16_t> weights_of(swap_trainer& t, int chunk) {
  auto& store = t.store();
  store.fetch_weights(t.compute(), chunk);
  REQUIRE(t.compute().synchronize());
  std::vector<uint16_t> out(static_cast<size_t>(store.slice(chunk).count));
  std::memcpy(out.data(), store.weight_slice(chunk), out.size() * sizeof out.front());
  store.release_weights(t.compute(), chunk);
  return out;
}

}  // namespace

TEST_CASE("SWP-18: weights rounded from their masters are those of memory, on an unruly disk") {
  auto owner = make_reference_device();
  for (const auto& model : {testing::tiny_gpt2(), testing::tiny_llama()})
    for (const auto rounding : both_roundings) {
      auto c = without_weight_files(model, rounding);
      const auto expected = swap_trainer(*owner, c, {}).train(steps_of_weights_test);
      for (unsigned seed = 1; seed <= 8; ++seed) {
        CAPTURE(seed);
        c.groups = 1 + static_cast<int>(seed % 4);
        c.group_elements = int64_t{2048} << (seed % 3);
        swap_trainer swapped(*owner, c, on_unsteady_disk(seed));
        CHECK(swapped.train(steps_of_weights_test) == expected);
        CHECK(swapped.failure());
      }
    }
}

TEST_CASE("SWP-18 SWP-9: of updates that are dropped weights are those of the step before") {
  auto owner = make_reference_device();
  for (const bool shares_frames : {true, false})
    for (const auto rounding : both_roundings) {
      auto c = without_weight_files(testing::tiny_llama(), rounding);
      const auto expected = swap_trainer(*owner, c, {}).train(steps_of_weights_test);
      c.speculates = true;
      c.shares_frames = shares_frames;
      for (unsigned seed = 0; seed < 4; ++seed) {
        CAPTURE(seed);
        swap_trainer swapped(*owner, c, on_unsteady_disk(seed));
        for (int step = 1; step <= steps_of_weights_test; ++step)
          swapped.enqueue_speculating_step(step, (static_cast<unsigned>(step) / 2 + seed) % 2 == 0);
        swapped.wait();
        CHECK(swapped.state() == expected);
        CHECK(swapped.failure());
      }
    }
}

TEST_CASE("SWP-18 SWP-14: rows of a table that are updated first, beside weights without files") {
  auto owner = make_reference_device();
  for (const auto rounding : both_roundings) {
    auto c = without_weight_files(testing::tiny_llama(), rounding);
    c.model.vocab = 12'000;
    c.group_elements = 1 << 15;
    c.rows_first = true;
    const auto expected = swap_trainer(*owner, c, {}).train(steps_of_weights_test);
    swap_trainer swapped(*owner, c, on_unsteady_disk(3));
    CHECK(swapped.train(steps_of_weights_test) == expected);
    CHECK(swapped.failure());
    CHECK(swapped.swap().rows_first() > 0);
  }
}

TEST_CASE("SWP-18: weights of masters that are set are rounded as after the step that is told") {
  auto owner = make_reference_device();
  auto c = without_weight_files(testing::tiny_gpt2(), 7);
  constexpr int chunk = 3;  // a layer
  std::vector<std::vector<uint16_t>> seen;
  for (const bool derives : {false, true}) {
    c.derives_weights = derives;
    swap_trainer swapped(*owner, c, on_unsteady_disk(1));
    swapped.train(1);
    auto& store = swapped.store();
    std::vector<float> masters(static_cast<size_t>(store.info(chunk).count));
    for (size_t i = 0; i < masters.size(); ++i) masters[i] = 0.001f * static_cast<float>(i + 1);
    const auto note = [&] { seen.push_back(weights_of(swapped, chunk)); };
    note();
    REQUIRE(store.write(chunk, part::master, masters.data()));
    note();
    for (const int64_t after : {5, 6}) {
      store.publish_weights(swapped.compute(), chunk, after);
      REQUIRE(swapped.compute().synchronize());
      note();
    }
    CHECK(swapped.failure());
  }
  REQUIRE(seen.size() == 8);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(seen[i] == seen[i + 4]);
    for (size_t other = 0; other < i; ++other) CHECK(seen[i] != seen[other]);
  }
}

TEST_CASE("SWP-18: there are no files of weights, and a step moves what was planned") {
  auto owner = make_reference_device();
  auto c = without_weight_files(testing::tiny_gpt2(), std::nullopt);
  for (const bool derives : {false, true}) {
    scratch dir;
    c.derives_weights = derives;
    swap_trainer swapped(*owner, c, with_files_in(dir));
    int weights = 0;
    for (const auto& f : std::filesystem::directory_iterator(dir.path))
      weights += f.path().filename().string().starts_with("weights-") ? 1 : 0;
    CHECK((weights == 0) == derives);
    swapped.train(1);  // whose moments are not read
    swapped.enqueue_step(2);
    swapped.wait();
    const auto before = swapped.swap().facts();
    swapped.enqueue_step(3);
    swapped.wait();
    const auto after = swapped.swap().facts();
    stage_shape shape = whole_model(c.model, 2, 7, c.type);
    shape.where = swapped.store().options().where;
    const auto planned = traffic_of_step(c.model, shape, {0, false, 1}).whole();
    CHECK(after.read_bytes - before.read_bytes == planned.read_bytes);
    CHECK(after.written_bytes - before.written_bytes == planned.written_bytes);
  }
}

TEST_CASE("SWP-18: memory for masters that are rounded is planned") {
  auto owner = make_reference_device();
  scratch dir;
  auto c = without_weight_files(testing::tiny_gpt2(), std::nullopt);
  swap_trainer swapped(*owner, c, with_files_in(dir));
  auto& store = swapped.store();
  std::vector<chunk_info> chunks;
  for (int chunk = 0; chunk < store.chunk_count(); ++chunk) chunks.push_back(store.info(chunk));
  const auto where = store.options().where;
  const auto sizes = [&](const residency& r) { return swap_sizes_of(chunks, r, dtype::bf16, {}); };
  auto stored = where;
  stored.derives_weights = false;
  const auto more = sizes(where).slots_bytes - sizes(stored).slots_bytes;
  uint64_t array = 0, weights = 0;
  for (int chunk = 0; chunk < store.chunk_count(); ++chunk) {
    const auto file = swap_layout(store.slice(chunk), stored, dtype::bf16);
    weights += file.all_weights_bytes();
    if (where.brings_weights(chunk)) array = std::max(array, file.array_bytes());
  }
  CHECK(array > 0);
  CHECK(more == masters_slots * array);
  CHECK(sizes(where).file_bytes == sizes(stored).file_bytes - weights);
  uint64_t held = 0;
  for (const auto& h : io::process_memory().held().holders)
    if (h.holder.starts_with("state ")) held += h.bytes;
  CHECK(held > sizes(stored).slots_bytes - sizes(stored).slots_bytes / 2);
  CHECK(held <= sizes(where).slots_bytes);
}

TEST_CASE("SWP-18 SWP-5: a master that changed on the disk becomes no weight") {
  auto owner = make_reference_device();
  for (const int group : {0, 1}) {
    scratch dir;
    auto c = without_weight_files(testing::tiny_gpt2(), std::nullopt);
    swap_trainer swapped(*owner, c, with_files_in(dir));
    swapped.train(1);
    constexpr int chunk = 3;  // a layer
    auto& store = swapped.store();
    const auto file = swap_layout(store.slice(chunk), store.options().where, dtype::bf16);
    REQUIRE(file.groups() > 1);
    turn_bit(dir / "chunk-0003", file.offset(group, io::state_part::master) + 9);
    store.fetch_weights(swapped.compute(), chunk);
    store.release_weights(swapped.compute(), chunk);
    swapped.wait();
    REQUIRE_FALSE(swapped.failure());
    CHECK(is_error(swapped.failure().error(), swap_damaged, "chunk-0003", "transformer.h.1."));
  }
}

}  // namespace troupe::gpu
