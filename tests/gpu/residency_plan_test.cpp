// Which chunks live on disk: never more than the budget, never more moved with a larger one.
#include "gpu/swap/residency_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "gpu/swap/chunk_places.hpp"
#include "gpu/swap/memory_split.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/model_samples.hpp"

namespace troupe::gpu {
namespace {

stage_shape shape_of_plan_test(const model_config& model, dtype type) {
  stage_shape s = whole_model(model, 2, 8, type);
  s.recompute = true;
  return s;
}

/// Bytes that a step moves between disk and memory: weights in frames are read twice.
uint64_t moved(const model_config& model, const stage_shape& shape, const residency& where) {
  uint64_t bytes = 0;
  const auto chunks = stage_chunks(model, shape);
  for (size_t c = 0; c < chunks.size(); ++c) {
    const auto home = where.of(static_cast<int>(c));
    const auto elements = static_cast<uint64_t>(chunks[c].count);
    if (home.state_on_disk) bytes += elements * 24;
    if (home.weight_frame >= 0) bytes += elements * 2 * size_of(shape.compute);
    if (where.gradient_on_disk(static_cast<int>(c))) bytes += elements * 8;
  }
  return bytes;
}

/// In memory or on disk; where nothing is on disk, anyway.
bool holds_gradients(const residency& where) {
  return keeps_gradients(where) || where.gradients_on_disk;
}

}  // namespace

TEST_CASE("RSP-1 RSP-2: at every budget what is chosen fits, and more memory never moves more") {
  for (auto model : {testing::tiny_gpt2(), testing::tiny_llama()})
    for (const auto type : {dtype::f32, dtype::bf16})
      for (const bool clips : {false, true})
        for (const int64_t micro_batches : {1, 3}) {
          model.layers = 6;
          const auto shape = shape_of_plan_test(model, type);
          const residency_budget limits{0, clips, micro_batches};
          stage_shape least = shape;
          least.where = least_residency(model, shape, limits);
          const auto all = plan_stage(model, shape).total();
          const auto floor = plan_stage(model, least).total();
          uint64_t before = UINT64_MAX;
          bool kept = false;
          for (uint64_t bytes = std::min(all, floor) - 1; bytes <= std::max(all, floor) + 1;
               bytes += 97) {
            const auto planned = plan_residency(model, shape, {bytes, clips, micro_batches});
            if (bytes < std::min(all, floor)) {
              REQUIRE_FALSE(planned);
              CHECK(planned.error().is(budget_too_small));
              continue;
            }
            if (!planned) continue;  // the whole is smaller than what swapping takes
            stage_shape with = shape;
            with.where = *planned;
            CHECK(plan_stage(model, with).total() <= bytes);
            const auto now = moved(model, shape, *planned);
            CHECK(now <= before);
            before = now;
            CHECK(keeps_gradients(*planned) >= kept);
            kept = keeps_gradients(*planned);
            if (micro_batches > 1) CHECK(holds_gradients(*planned));
          }
          const auto whole = plan_residency(model, shape, {all, clips, micro_batches});
          REQUIRE(whole);
          CHECK(*whole == residency{});
        }
}

namespace {

/// The same as a step that makes its passes twice moves it.
uint64_t moved_in_passes(const model_config& model, const stage_shape& shape,
                         const residency& where, bool clips) {
  const bool twice = clips && where.any_on_disk() && !where.speculates && !keeps_gradients(where);
  return moved(model, shape, where) * (twice ? 2 : 1);
}

/// Of a device that the host cannot address; the host's budget comes later.
residency_budget of_two_memories(uint64_t bytes, bool clips, uint64_t disk_bytes) {
  residency_budget out{bytes, clips, 1, clip_way::automatic, disk_bytes};
  out.host_bytes = 0;
  return out;
}

std::vector<uint64_t> from_to(uint64_t first, uint64_t last, uint64_t steps) {
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i <= steps; ++i) out.push_back(first + (last - first) * i / steps);
  return out;
}

}  // namespace

TEST_CASE("RSP-4 RSP-2: of two budgets both are kept, and more of either never moves more") {
  auto model = testing::tiny_gpt2();
  model.layers = 16;
  model.vocab = 600;  // more than a layer has
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const bool clips : {false, true})
      for (const uint64_t disk : {uint64_t{0}, uint64_t{1} << 40}) {
        CAPTURE(clips);
        CAPTURE(disk);
        const auto shape = shape_of_plan_test(model, type);
        auto budget = of_two_memories(0, clips, disk);
        auto with = shape;
        with.where = least_residency(model, shape, budget);
        const auto least = needs_of(model, with, budget);
        const auto all = plan_stage(model, shape).total();
        with.where.speculates = true;
        const auto wide = split_of(model, with).host_bytes;
        REQUIRE(least.device_bytes < all);
        REQUIRE(wide > least.host_bytes);           // twins of tables
        std::map<uint64_t, uint64_t> moved_before;  // by the host's budget
        for (const auto device : from_to(least.device_bytes, all - 1, 10)) {
          uint64_t before = UINT64_MAX;
          for (const auto host : from_to(least.host_bytes, 3 * wide, 6)) {
            budget.bytes = device;
            budget.host_bytes = host;
            const auto planned = plan_residency(model, shape, budget);
            REQUIRE(planned);
            with.where = *planned;
            const auto taken = split_of(model, with);
            CHECK(taken.device_bytes <= device);
            CHECK(taken.host_bytes <= host);
            const auto now = moved_in_passes(model, shape, *planned, clips);
            CHECK(now <= before);
            before = now;
            if (const auto it = moved_before.find(host); it != moved_before.end())
              CHECK(now <= it->second);
            moved_before[host] = now;
          }
        }
      }
}

TEST_CASE("RSP-4: the budget that is too small is named, and what a GPU holds needs no host") {
  auto model = testing::tiny_gpt2();
  model.layers = 12;
  const auto shape = shape_of_plan_test(model, dtype::bf16);
  auto budget = of_two_memories(0, true, 0);
  auto with = shape;
  with.where = least_residency(model, shape, budget);
  const auto least = split_of(model, with);
  const auto planned = [&](uint64_t device, uint64_t host) {
    budget.bytes = device;
    budget.host_bytes = host;
    return plan_residency(model, shape, budget);
  };
  const auto all = plan_stage(model, shape).total();
  REQUIRE(least.device_bytes < all);
  CHECK(planned(least.device_bytes - 1, UINT64_MAX / 2).error().is(device_budget_too_small));
  CHECK(planned(least.device_bytes - 1, 0).error().is(device_budget_too_small));
  CHECK(planned(least.device_bytes, least.host_bytes - 1).error().is(twins_too_large));
  CHECK(planned(least.device_bytes, least.host_bytes));
  const auto whole = planned(all, 0);
  REQUIRE(whole);
  CHECK(*whole == residency{});
  CHECK(split_of(model, shape).host_bytes == 0);
}

TEST_CASE("RSP-4 RES-5: gradients that a device has room for need no twins of the host's") {
  auto model = testing::tiny_gpt2();
  model.layers = 12;
  const auto shape = shape_of_plan_test(model, dtype::bf16);
  auto budget = of_two_memories(0, true, 0);
  budget.micro_batches = 4;
  const auto needs = [&](const residency& where) {
    auto with = shape;
    with.where = where;
    return split_of(model, with);
  };
  const auto on_disk = least_residency(model, shape, budget);
  REQUIRE(on_disk.gradients_on_disk);
  auto in_memory = on_disk;
  in_memory.gradients_on_disk = false;
  for (auto& c : in_memory.chunks) c.grad_frame = -1;
  const auto least = needs(on_disk), held = needs(in_memory);
  REQUIRE(least.device_bytes < held.device_bytes);
  REQUIRE(least.host_bytes > held.host_bytes);
  const auto planned = [&](uint64_t device, uint64_t host) {
    budget.bytes = device;
    budget.host_bytes = host;
    auto out = plan_residency(model, shape, budget);
    if (out) CHECK(needs(*out).device_bytes <= device);
    if (out) CHECK(needs(*out).host_bytes <= host);
    return out;
  };
  const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const auto stored = planned(least.device_bytes, least.host_bytes);
  REQUIRE(stored);
  CHECK(stored->gradients_on_disk);
  CHECK(planned(held.device_bytes - 1, least.host_bytes - 1).error().is(twins_too_large));
  const auto kept = planned(held.device_bytes, held.host_bytes);
  REQUIRE(kept);
  CHECK(keeps_gradients(*kept));
  const auto less = held.host_bytes - 1;
  CHECK(planned(held.device_bytes, less).error() ==
        twins_too_large(mib(less), mib(held.host_bytes)));
}

TEST_CASE("RSP-3: what is left over of the memory reads the ends' state ahead") {
  auto model = testing::tiny_gpt2();
  model.vocab = int64_t{1} << 21;
  const auto shape = shape_of_plan_test(model, dtype::bf16);
  const auto total = [&](const residency& where) {
    stage_shape with = shape;
    with.where = where;
    return plan_stage(model, with).total();
  };
  const auto chunks = stage_chunks(model, shape);
  const auto floor = total(least_residency(model, shape, {0, false, 1})), all = total({});
  REQUIRE(floor < all);
  constexpr int usual = 8;
  int most = 0;
  for (uint64_t bytes = floor; bytes < all; bytes += (all - floor) / 50) {
    const auto planned = plan_residency(model, shape, {bytes, false, 1});
    REQUIRE(planned);
    REQUIRE(planned->any_on_disk());
    CHECK(total(*planned) <= bytes);
    int useful = usual;
    for (size_t c = 0; c < chunks.size(); ++c)
      if (chunks[c].layer < 0 && planned->chunks[c].state_on_disk)
        useful += swap_layout(slice_of(chunks[c].count, {}), *planned, shape.compute).groups();
    auto more = *planned;
    const bool has_all = more.groups_in_memory++ >= useful;
    CHECK((has_all || total(more) > bytes));
    most = std::max(most, planned->groups_in_memory);
  }
  CHECK(most > usual);
}

namespace {

/// Whose layers are as large as a dozen groups of state, so that memory has room for some of them.
model_config layers_beside_groups(bool tied) {
  auto m = testing::tiny_gpt2();
  m.layers = 6;
  m.hidden = 768;
  m.heads = m.kv_heads = 12;
  m.head_width = 64;
  m.ffn = 3072;
  m.vocab = 50257;
  m.tied = tied;
  return m;
}

std::vector<size_t> with_state_in_memory(const residency& where, size_t chunks) {
  std::vector<size_t> out;
  for (size_t c = 0; c < chunks; ++c)
    if (!where.of(static_cast<int>(c)).state_on_disk) out.push_back(c);
  return out;
}

}  // namespace

TEST_CASE(
    "RSP-6 RSP-2: the next step's first chunks have their state in memory, tables if they fit") {
  for (const bool tied : {false, true})
    for (const bool clips : {false, true}) {
      const auto model = layers_beside_groups(tied);
      const auto shape = shape_of_plan_test(model, dtype::bf16);
      const auto total = [&](const residency& where) {
        stage_shape with = shape;
        with.where = where;
        return plan_stage(model, with).total();
      };
      const auto floor = total(least_residency(model, shape, {0, clips, 1})), all = total({});
      const auto chunks = stage_chunks(model, shape).size();
      int tables = 0, layers = 0;  // budgets with the token table, and with layers in its place
      uint64_t before = UINT64_MAX;
      for (uint64_t bytes = floor; bytes < all; bytes += (all - floor) / 300) {
        const auto planned = plan_residency(model, shape, {bytes, clips, 1});
        REQUIRE(planned);
        const auto now = moved(model, shape, *planned);
        CHECK(now <= before);
        before = now;
        const auto whole = with_state_in_memory(*planned, chunks);
        if (whole.empty()) continue;
        const bool has_table = whole.front() == 0;
        (has_table ? tables : layers) += 1;
        for (size_t i = has_table ? 2 : 1; i < whole.size(); ++i)
          CHECK(whole[i] == whole[i - 1] + 1);
        if (has_table) continue;
        auto other = *planned;  // with the table in place of what it has
        other.chunks[0] = {};
        for (const auto c : whole) other.chunks[c].state_on_disk = true;
        CHECK(total(other) > bytes);
      }
      CHECK(tables > 0);
      CHECK(layers > 0);
    }
}

TEST_CASE("RES-2 RES-3: neighbours never share a frame, what is in memory has frames of its own") {
  auto model = testing::tiny_gpt2();
  model.layers = 7;
  const auto shape = shape_of_plan_test(model, dtype::bf16);
  const auto where = least_residency(model, shape, {0, false, 1});
  const auto chunks = stage_chunks(model, shape);
  REQUIRE(where.chunks.size() == chunks.size());
  for (size_t c = 0; c + 1 < chunks.size(); ++c) {
    if (chunks[c].layer < 0) CHECK(where.chunks[c].weight_frame == -1);
    if (chunks[c].layer < 0 || chunks[c + 1].layer < 0) continue;
    CHECK(where.chunks[c].weight_frame != where.chunks[c + 1].weight_frame);
    CHECK(where.chunks[c].grad_frame != where.chunks[c + 1].grad_frame);
  }
}

TEST_CASE("RES-4 RSP-1: gradients of replicas take two frames, however many layers there are") {
  auto model = testing::tiny_gpt2();
  const auto gradients = [&](int layers, const residency_budget& steps, bool by_layer = false) {
    model.layers = layers;
    auto shape = shape_of_plan_test(model, dtype::bf16);
    shape.replica = {0, 4};
    shape.by_layer = by_layer;
    shape.where = least_residency(model, shape, steps);
    return plan_stage(model, shape).gradients;
  };
  const residency_budget unclipped{0, false, 1}, clipped{0, true, 1}, several{0, false, 3},
      held{0, true, 1, clip_way::hold};
  for (const auto& steps : {unclipped, clipped}) CHECK(gradients(4, steps) == gradients(40, steps));
  CHECK(gradients(4, several, true) == gradients(40, several, true));
  for (const auto& steps : {several, held})  // on disk in between (RES-5)
    CHECK(gradients(40, steps) == gradients(80, steps));
}

TEST_CASE("RES-5 RSP-1: gradients are on disk only where memory has no room for all, and few are") {
  auto model = testing::tiny_gpt2();
  model.layers = 12;
  const auto total = [&](stage_shape shape, const residency& where) {
    shape.where = where;
    return plan_stage(model, shape).total();
  };
  for (const int ranks : {1, 2}) {
    auto shape = shape_of_plan_test(model, dtype::bf16);
    shape.replica.ranks = ranks;
    for (const auto& steps :
         {residency_budget{0, true, 4, clip_way::hold}, residency_budget{0, false, 4},
          residency_budget{0, true, 4}, residency_budget{0, true, 1, clip_way::hold}}) {
      CAPTURE(ranks);
      CAPTURE(steps.micro_batches);
      const auto least = least_residency(model, shape, steps);
      REQUIRE(least.gradients_on_disk);
      CHECK_FALSE(keeps_gradients(least));
      CHECK(update_order_of(least, steps.clips) ==
            (steps.clips ? update_order::behind_backward : update_order::under_backward));
      auto in_memory = least;
      in_memory.gradients_on_disk = false;
      for (auto& c : in_memory.chunks) c.grad_frame = -1;
      const auto floor = total(shape, least), held = total(shape, in_memory);
      REQUIRE(floor < held);
      int before = 1000;
      for (auto bytes = floor; bytes < held; bytes += 97) {
        auto budget = steps;
        budget.bytes = bytes;
        const auto planned = plan_residency(model, shape, budget);
        REQUIRE(planned);
        CHECK(total(shape, *planned) <= bytes);
        CHECK_FALSE(planned->speculates);
        int on_disk = 0;
        for (int c = 0; c < static_cast<int>(planned->chunks.size()); ++c)
          on_disk += planned->gradient_on_disk(c) ? 1 : 0;
        CHECK(on_disk > 0);
        CHECK(on_disk <= before);
        before = on_disk;
      }
      CHECK(before < 12);
      auto enough = steps;
      enough.bytes = held;
      const auto planned = plan_residency(model, shape, enough);
      REQUIRE(planned);
      CHECK(keeps_gradients(*planned));
      CHECK_FALSE(planned->gradients_on_disk);
    }
  }
}

TEST_CASE("RES-5: room for gradients is a part of the files, and a slot has room for a group's") {
  auto model = testing::tiny_gpt2();
  model.layers = 12;
  for (const int ranks : {1, 3}) {
    CAPTURE(ranks);
    auto shape = shape_of_plan_test(model, dtype::bf16);
    shape.replica.ranks = ranks;
    shape.where = least_residency(model, shape, {0, true, 4, clip_way::hold});
    REQUIRE(shape.where.gradients_on_disk);
    const auto with = plan_stage(model, shape);
    auto without = shape;
    without.where.gradients_on_disk = false;
    const auto none = plan_stage(model, without);
    uint64_t files = 0;
    const auto chunks = stage_chunks(model, shape);
    for (size_t c = 0; c < chunks.size(); ++c) {
      if (chunks[c].layer < 0) continue;
      const auto slice = slice_of(chunks[c].count, shape.replica);
      files += frame_size(static_cast<size_t>(slice.whole) * 4);
      if (ranks > 1) files += frame_size(static_cast<size_t>(slice.part) * 4);
    }
    CHECK(with.on_disk == none.on_disk + files);
    CHECK(with.swap_slots > none.swap_slots);
    const auto places = bytes_of_places(model, shape, 2);
    CHECK(places[0].files + places[1].files == with.on_disk);
  }
}

TEST_CASE("RSP-1: a way of clipping that is asked for is planned, and fits") {
  auto model = testing::tiny_gpt2();
  model.layers = 6;
  const auto shape = shape_of_plan_test(model, dtype::bf16);
  const auto all = plan_stage(model, shape).total();
  for (const auto way : {clip_way::automatic, clip_way::speculate, clip_way::hold, clip_way::twice})
    for (const uint64_t disk : {uint64_t{0}, uint64_t{1} << 40})
      for (uint64_t bytes = all / 4; bytes < all; bytes += 997) {
        const auto planned = plan_residency(model, shape, {bytes, true, 1, way, disk});
        if (!planned) continue;
        stage_shape with = shape;
        with.where = *planned;
        CHECK(plan_stage(model, with).total() <= bytes);
        if (!planned->any_on_disk()) continue;
        if (way == clip_way::hold) CHECK(holds_gradients(*planned));
        CHECK(planned->speculates ==
              (way == clip_way::speculate ||
               (way == clip_way::automatic && disk > 0 && !keeps_gradients(*planned))));
        if (planned->speculates)  // what is in memory cannot be dropped
          for (const auto& c : planned->chunks) CHECK(c.state_on_disk);
      }
}

namespace {

/// Bytes of the files of a plan.
uint64_t drive_bytes(const model_config& model, stage_shape shape, const residency& where) {
  shape.where = where;
  return plan_stage(model, shape).on_disk;
}

}  // namespace

TEST_CASE("RSP-5: weights have no files where the drive has room only so") {
  auto model = testing::tiny_gpt2();
  model.layers = 12;
  const auto shape = shape_of_plan_test(model, dtype::bf16);
  for (const bool clips : {false, true}) {
    CAPTURE(clips);
    residency_budget budget{0, clips, 1};
    budget.weights = weights_choice::derived;
    auto without = least_residency(model, shape, budget);
    CHECK(without.derives_weights);
    stage_shape least = shape;
    least.where = without;
    budget = {plan_stage(model, least).total(), clips, 1};
    auto with = without;
    with.derives_weights = false;
    const auto planned_on = [&](uint64_t disk) {
      auto b = budget;
      b.disk_bytes = disk;
      const auto planned = plan_residency(model, shape, b);
      REQUIRE(planned);
      REQUIRE(planned->any_on_disk());
      return *planned;
    };
    const auto small = drive_bytes(model, shape, without), large = drive_bytes(model, shape, with);
    REQUIRE(small < large);
    CHECK_FALSE(planned_on(0).derives_weights);          // nobody knows
    CHECK_FALSE(planned_on(small - 1).derives_weights);  // no plan has room
    CHECK(planned_on(small).derives_weights);
    CHECK(planned_on(large - 1).derives_weights);
    CHECK_FALSE(planned_on(large).derives_weights);
    without.speculates = with.speculates = true;
    const auto two_small = drive_bytes(model, shape, without);
    const auto two_large = drive_bytes(model, shape, with);
    REQUIRE(two_small > large);
    for (const auto disk : {two_small - 1, two_small, two_large - 1, two_large}) {
      const auto planned = planned_on(disk);
      CHECK(planned.speculates == (clips && disk >= two_small));
      CHECK(planned.derives_weights == (planned.speculates && disk < two_large));
      CHECK(drive_bytes(model, shape, planned) <= disk);
    }
  }
}

TEST_CASE(
    "RSP-5: of folders on several drives each has room for its chunks, or there is too little") {
  auto model = testing::tiny_gpt2();
  model.layers = 12;
  const auto shape = shape_of_plan_test(model, dtype::bf16);
  constexpr size_t folders = 3;
  const auto files_of = [&](residency where) {
    auto with = shape;
    with.where = std::move(where);
    std::vector<uint64_t> out;
    for (const auto& of : bytes_of_places(model, with, folders)) out.push_back(of.files);
    return out;
  };
  for (const bool clips : {false, true}) {
    CAPTURE(clips);
    residency_budget budget{0, clips, 1};
    budget.weights = weights_choice::derived;
    auto without = least_residency(model, shape, budget);
    stage_shape least = shape;
    least.where = without;
    budget = {plan_stage(model, least).total(), clips, 1};
    auto with = without;
    with.derives_weights = false;
    const auto planned_on = [&](std::vector<size_t> drives, std::vector<uint64_t> bytes) {
      auto b = budget;
      b.folder_drives = std::move(drives);
      b.drive_bytes = std::move(bytes);
      const auto planned = plan_residency(model, shape, b);
      REQUIRE(planned);
      REQUIRE(planned->any_on_disk());
      return *planned;
    };
    const auto small = files_of(without), large = files_of(with);
    const std::vector<size_t> apart{0, 1, 2};
    for (size_t i = 0; i < folders; ++i) {
      CAPTURE(i);
      REQUIRE(small[i] < large[i]);
      auto bytes = large;
      CHECK_FALSE(planned_on(apart, bytes).derives_weights);
      bytes[i] = large[i] - 1;  // however much the others have
      bytes[(i + 1) % folders] += uint64_t{1} << 40;
      CHECK(planned_on(apart, bytes).derives_weights);
      bytes[i] = small[i];
      CHECK(planned_on(apart, bytes).derives_weights);
      bytes[i] = small[i] - 1;  // no plan has room
      CHECK_FALSE(planned_on(apart, bytes).derives_weights);
    }
    // Two of them on one drive.
    CHECK_FALSE(planned_on({0, 1, 0}, {large[0] + large[2], large[1]}).derives_weights);
    CHECK(planned_on({0, 1, 0}, {large[0] + large[2] - 1, large[1]}).derives_weights);
    without.speculates = with.speculates = true;
    const auto two_small = files_of(without), two_large = files_of(with);
    CHECK(planned_on(apart, two_large).speculates == clips);
    CHECK_FALSE(planned_on(apart, two_large).derives_weights);
    auto bytes = two_large;
    bytes[1] = two_small[1];
    CHECK(planned_on(apart, bytes).speculates == clips);
    CHECK(planned_on(apart, bytes).derives_weights == clips);
    --bytes[1];
    CHECK_FALSE(planned_on(apart, bytes).speculates);
  }
}

TEST_CASE("RSP-5: weights have files where not the drive but memory lacks room for two versions") {
  auto model = testing::tiny_gpt2();
  model.layers = 12;
  model.hidden = 1024;
  model.heads = model.kv_heads = 16;
  model.head_width = 64;
  model.ffn = 4096;
  model.vocab = 50'000;  // whose weights, brought back, need the largest twin
  const auto shape = shape_of_plan_test(model, dtype::bf16);
  residency_budget budget{0, true, 1};
  const auto stored = least_residency(model, shape, budget);
  const auto needs = [&](residency where, bool derives, bool speculates) {
    auto with = shape;
    with.where = std::move(where);
    with.where.derives_weights = derives;
    with.where.speculates = speculates;
    return split_of(model, with);
  };
  const auto once = needs(stored, false, false), derived = needs(stored, true, true);
  budget.bytes = derived.device_bytes;
  budget.host_bytes = std::max(once.host_bytes, derived.host_bytes);
  REQUIRE(once.device_bytes <= budget.bytes);
  REQUIRE(needs(stored, false, true).host_bytes > *budget.host_bytes);
  const auto planned_on = [&](uint64_t disk) {
    budget.disk_bytes = disk;
    const auto planned = plan_residency(model, shape, budget);
    REQUIRE(planned);
    return *planned;
  };
  auto two = stored;
  two.speculates = true;
  const auto enough = drive_bytes(model, shape, two);
  CHECK_FALSE(planned_on(enough).speculates);
  CHECK_FALSE(planned_on(enough).derives_weights);
  CHECK(planned_on(enough - 1).speculates);  // which the drive has room for without them
  CHECK(planned_on(enough - 1).derives_weights);
}

TEST_CASE("RSP-5: where weights are is as asked, and no matter in float32") {
  auto model = testing::tiny_gpt2();
  model.layers = 12;
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const auto choice : {weights_choice::stored, weights_choice::derived}) {
      const auto shape = shape_of_plan_test(model, type);
      residency_budget budget{0, false, 1};
      budget.weights = choice;
      const auto least = least_residency(model, shape, budget);
      const bool derives = type == dtype::bf16 && choice == weights_choice::derived;
      CHECK(least.derives_weights == derives);
      stage_shape with = shape;
      with.where = least;
      budget.bytes = plan_stage(model, with).total();
      budget.disk_bytes = 1;  // what is asked for is not made otherwise
      const auto planned = plan_residency(model, shape, budget);
      REQUIRE(planned);
      REQUIRE(planned->any_on_disk());
      CHECK(planned->derives_weights == derives);
    }
}

TEST_CASE("RSP-1: a second version has room beside what layers spill, or there is none") {
  auto model = testing::tiny_gpt2();
  model.layers = 12;
  auto shape = shape_of_plan_test(model, dtype::bf16);
  shape.activations.assign(12, activation_choice::spill);
  stage_shape least = shape;
  least.where = least_residency(model, shape, {0, true, 1, clip_way::automatic, 0});
  const auto bytes = plan_stage(model, least).total();
  least.where.speculates = true;
  const auto both = plan_stage(model, least);
  REQUIRE(both.spill_bytes > 0);
  for (const uint64_t disk : {both.on_disk - 1, both.on_disk - both.spill_bytes, both.on_disk}) {
    residency_budget budget{bytes, true, 1, clip_way::automatic, disk};
    budget.weights = weights_choice::stored;
    const auto planned = plan_residency(model, shape, budget);
    REQUIRE(planned);
    REQUIRE(planned->any_on_disk());
    CHECK(planned->speculates == (disk == both.on_disk));
  }
}

}  // namespace troupe::gpu
