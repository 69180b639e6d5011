// Replicas that share the optimizer against one that has it all: slices, bytes, updates.
#include "tests/gpu/replicas.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <future>

#include "gpu/model/stage_model.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/store_bytes.hpp"

namespace troupe::gpu {

using namespace testing;

namespace {

constexpr std::array state_parts{part::master, part::m, part::v};

/// A model whose chunks no number of replicas divides.
model_config odd_model() {
  model_config m = tiny_gpt2();
  m.vocab = 61;
  return m;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most,
                    std::abs(double{a[i]} - double{b[i]}) / std::max(1e-3, std::abs(double{b[i]})));
  return most;
}

/// The norm of all gradients of the last step, which all replicas have.
double norm_of(const std::vector<replica>& all) {
  for (const auto& r : all) CHECK(*r.rule->norm_squared() == *all.front().rule->norm_squared());
  return *all.front().rule->norm_squared();
}

/// What every replica must have at rest: the weights that the masters say, no gradient, no padding.
void check_rest(const std::vector<replica>& all) {
  for (int c = 0; c < all.front().store->chunk_count(); ++c) {
    const auto masters = whole_part(all, c, part::master);
    for (const auto& r : all) {
      CHECK(weight_bytes(r, c) == weight_bytes(all.front(), c));
      const auto& slice = r.store->slice(c);
      for (int64_t i = 0; i < slice.whole; ++i) REQUIRE(r.store->grad(c)[i] == 0.0f);
      for (int64_t i = slice.count; i < slice.part; ++i)  // PS-3
        for (const auto which : state_parts)
          REQUIRE(static_cast<const float*>(r.store->data(c, which))[i] == 0.0f);
    }
    if (all.front().store->options().compute == dtype::f32)
      CHECK(std::memcmp(all.back().store->weight(c), masters.data(), masters.size() * 4) == 0);
  }
}

}  // namespace

TEST_CASE("PS-7: slices are equal parts that cover every chunk once, whatever its size") {
  for (const int64_t count : {1, 31, 32, 33, 64, 96, 1000, 4097, 1'000'003})
    for (const int ranks : {1, 2, 3, 4, 7, 64}) {
      CAPTURE(count);
      CAPTURE(ranks);
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto s = slice_of(count, {rank, ranks});
        CHECK(s.first == rank * s.part);
        CHECK(s.whole == ranks * s.part);
        CHECK(s.part % 32 == 0);
        CHECK(s.count <= s.part);
        CHECK(std::min(s.first, count) == next);
        next += s.count;
      }
      CHECK(next == count);
      CHECK(slice_of(count, {0, ranks}).part < (count + ranks - 1) / ranks + 32);
    }
  CHECK(slice_of(4096, {0, 1}).whole == 4096);
}

TEST_CASE("spans are cut at the slice, and say with which tensor they begin") {
  const std::vector<parameter_span> spans{
      {0, 10, true}, {10, 0, false}, {10, 30, false}, {40, 8, true}};
  const auto cut = [&](int64_t first, int64_t count) {
    int64_t skipped = -1;
    std::vector<std::array<int64_t, 3>> out;
    for (const auto& s : spans_within(spans, first, count, skipped))
      out.push_back({s.offset, s.count, s.decay});
    return std::pair(skipped, out);
  };
  using list = std::vector<std::array<int64_t, 3>>;
  CHECK(cut(0, 5) == std::pair<int64_t, list>(0, {{0, 5, 1}}));
  CHECK(cut(5, 10) == std::pair<int64_t, list>(0, {{0, 5, 1}, {5, 5, 0}}));
  CHECK(cut(12, 20) == std::pair<int64_t, list>(2, {{0, 20, 0}}));
  CHECK(cut(20, 28) == std::pair<int64_t, list>(2, {{0, 20, 0}, {20, 8, 1}}));
  CHECK(cut(48, 0) == std::pair<int64_t, list>(4, {}));
}

TEST_CASE("replicas divide the memory of the state, and what is planned is what is allocated") {
  const auto model = odd_model();
  auto owner = make_reference_device();
  for (const dtype compute : {dtype::f32, dtype::bf16})
    for (const int ranks : {1, 2, 3}) {
      CAPTURE(ranks);
      uint64_t parameters = 0, slices = 0;
      for (const auto& c : stage_chunks(model, whole_model(model, 1, 4, compute))) {
        parameters += static_cast<uint64_t>(slice_of(c.count, {0, ranks}).whole);
        slices += static_cast<uint64_t>(slice_of(c.count, {0, ranks}).part);
      }
      for (int rank = 0; rank < ranks; ++rank) {
        stage_shape shape = whole_model(model, 1, 4, compute);
        shape.replica = {rank, ranks};
        auto stage = stage_model::make(*owner, model, shape);
        REQUIRE(stage);
        const auto& plan = (*stage)->plan();
        const uint64_t masters = compute == dtype::bf16 ? slices * 4 : 0;
        CHECK(plan.optimizer == slices * 8);
        CHECK(plan.masters == masters);
        CHECK(plan.gradients == parameters * 4);
        CHECK(plan.weights == parameters * size_of(compute));
        CHECK(bytes_of((*stage)->store()) ==
              plan.weights + plan.masters + plan.gradients + plan.optimizer);
      }
      CHECK(slices * static_cast<uint64_t>(ranks) == parameters);
    }
  stage_shape shape = whole_model(model, 1, 4, dtype::f32);
  for (const replica_place place : {replica_place{2, 2}, {-1, 2}, {0, 0}}) {
    shape.replica = place;
    CHECK_FALSE(stage_model::make(*owner, model, shape));
  }
  shape.replica = {0, 2};
  shape.training = false;
  CHECK_FALSE(stage_model::make(*owner, model, shape));
}

TEST_CASE("a replica keeps its slice of what is written, and all of the weights") {
  const auto model = odd_model();
  auto owner = make_reference_device();
  for (const dtype compute : {dtype::f32, dtype::bf16}) {
    auto whole = store_of(*owner, model, compute, {});
    std::vector<std::unique_ptr<parameter_store>> parts;
    for (int rank = 0; rank < 3; ++rank)
      parts.push_back(store_of(*owner, model, compute, {rank, 3}));
    for (int c = 0; c < whole->chunk_count(); ++c) {
      const auto count = static_cast<size_t>(whole->info(c).count);
      std::vector<float> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = 0.37f * static_cast<float>(i % 101);
      REQUIRE(whole->write(c, part::master, values.data()));
      for (auto& p : parts) {
        const auto version = p->weight_version(c);
        for (const auto which : state_parts) REQUIRE(p->write(c, which, values.data()));
        CHECK(p->weight_version(c) > version);  // PS-4
        CHECK(std::memcmp(p->weight(c), whole->weight(c), count * size_of(compute)) == 0);
        const auto& slice = p->slice(c);
        for (const auto which : state_parts) {
          std::vector<float> got(static_cast<size_t>(slice.count));
          REQUIRE(p->read(c, which, got.data()));
          CHECK(std::equal(got.begin(), got.end(), values.begin() + slice.first));
        }
        for (int64_t i = 0; i < slice.whole; ++i) REQUIRE(p->grad(c)[i] == 0.0f);
      }
    }
  }
}

TEST_CASE("AdamW: one, two and three replicas make the same bits of the same gradients") {
  for (const dtype compute : {dtype::f32, dtype::bf16}) {
    auto alone = make_replicas(1, odd_model(), compute);
    take_steps(alone, 1, 4);
    for (const int ranks : {2, 3}) {
      CAPTURE(ranks);
      auto all = make_replicas(ranks, odd_model(), compute);
      take_steps(all, 1, 4);
      CHECK(norm_of(all) == norm_of(alone));  // whole numbers: exact
      for (int c = 0; c < alone.front().store->chunk_count(); ++c) {
        for (const auto which : state_parts)
          CHECK(whole_part(all, c, which) == whole_part(alone, c, which));
        CHECK(weight_bytes(all.back(), c) == weight_bytes(alone.front(), c));
      }
      check_rest(all);
    }
  }
}

TEST_CASE("LAMB: trust ratios are of whole tensors, however many replicas hold them") {
  for (const bool always : {true, false}) {
    const optimizer_settings lamb{.kind = optimizer_step_args::rule::lamb, .trust_always = always};
    auto alone = make_replicas(1, odd_model(), dtype::f32, lamb);
    CHECK(alone.front().rule->shared_norms().part_bytes == 0);
    take_steps(alone, 1, 4);
    for (const int ranks : {2, 3}) {
      CAPTURE(ranks);
      auto all = make_replicas(ranks, odd_model(), dtype::f32, lamb);
      take_steps(all, 1, 4);
      for (int c = 0; c < alone.front().store->chunk_count(); ++c)
        for (const auto which : state_parts)
          CHECK(largest_difference(whole_part(all, c, which), whole_part(alone, c, which)) < 1e-5);
      check_rest(all);
      auto again = make_replicas(ranks, odd_model(), dtype::f32, lamb);
      take_steps(again, 1, 4);
      for (int c = 0; c < alone.front().store->chunk_count(); ++c)
        CHECK(weight_bytes(again.front(), c) == weight_bytes(all.back(), c));
    }
  }
}

TEST_CASE("the norms of a tensor are the replicas' parts of it added up") {
  auto alone = make_replicas(1, odd_model(), dtype::f32);
  auto all = make_replicas(3, odd_model(), dtype::f32);
  take_steps(alone, 1, 1);
  take_steps(all, 1, 1);
  for (int c = 0; c < alone.front().store->chunk_count(); ++c)
    for (size_t t = 0; t < alone.front().store->info(c).tensors.size(); ++t) {
      double sum = 0;
      for (const auto& r : all) sum += r.rule->tensor_norms_squared(c)[t];
      CHECK(sum == alone.front().rule->tensor_norms_squared(c)[t]);
    }
}

TEST_CASE("PS-6: a forward pass reads a chunk's weights only once they are whole") {
  const auto model = tiny_gpt2();
  auto owner = make_host_device(1);
  const std::vector<int32_t> tokens{1, 2, 3, 4}, targets{2, 3, 4, 5};
  auto stage = stage_model::make(*owner, model, whole_model(model, 1, 4, dtype::f32));
  REQUIRE(stage);
  auto& store = (*stage)->store();
  auto compute = owner->make_stream({"compute", 1}), data = owner->make_stream({"data", 1});
  REQUIRE(compute);
  REQUIRE(data);
  const auto loss = [&] {
    (*stage)->reset_loss(**compute);
    (*stage)->forward(**compute,
                      std::array{stage_model::micro_batch{0, tokens.data(), targets.data()}}, 1.0f);
  };
  REQUIRE(initialize(store, model, 5));
  loss();
  REQUIRE((*compute)->synchronize());
  const double expected = *(*stage)->loss_sum();
  for (int chunk = 0; chunk < store.chunk_count(); ++chunk) {
    CAPTURE(chunk);
    const auto bytes = store.bytes(chunk, part::weight);
    std::vector<std::byte> right(bytes);
    std::memcpy(right.data(), store.weight(chunk), bytes);
    std::memset(store.weight(chunk), 0, bytes);
    std::promise<void> gate;
    auto opened = gate.get_future().share();
    (*data)->host_task([&, opened]() -> status {
      opened.wait();
      std::memcpy(store.weight(chunk), right.data(), bytes);
      return {};
    });
    store.weights_changed(chunk);
    store.weights_arrive(chunk, (*data)->record());
    loss();
    loss();  // what was awaited once is awaited again until it is there
    auto done = (*compute)->record();
    CHECK_FALSE(done->done());
    gate.set_value();
    REQUIRE((*compute)->synchronize());
    CHECK(*(*stage)->loss_sum() == expected);
    REQUIRE((*data)->synchronize());
  }
}

}  // namespace troupe::gpu
