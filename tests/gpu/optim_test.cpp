// Schedules as tables; the optimizer's flow on a real store.
#include <doctest/doctest.h>

#include <cmath>

#include "gpu/model/init.hpp"
#include "gpu/model/stage_shape.hpp"
#include "gpu/optim/lr_schedule.hpp"
#include "gpu/optim/optimizer.hpp"
#include "tests/gpu/model_samples.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

namespace troupe::gpu {

using testing::tiny_gpt2;

TEST_CASE("learning rate schedules") {
  struct {
    lr_shape shape;
    int64_t t;
    double expected;
  } const table[] = {
      {lr_shape::constant, 1, 0.25},
      {lr_shape::constant, 4, 1.0},
      {lr_shape::constant, 5, 1.0},
      {lr_shape::constant, 104, 1.0},
      {lr_shape::linear, 2, 0.5},
      {lr_shape::linear, 4, 1.0},
      {lr_shape::linear, 54, 0.55},
      {lr_shape::linear, 104, 0.1},
      {lr_shape::linear, 500, 0.1},
      {lr_shape::cosine, 3, 0.75},
      {lr_shape::cosine, 4, 1.0},
      {lr_shape::cosine, 54, 0.55},
      {lr_shape::cosine, 29, 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5))},
      {lr_shape::cosine, 104, 0.1},
      {lr_shape::wsd, 4, 1.0},
      {lr_shape::wsd, 84, 1.0},
      {lr_shape::wsd, 94, 0.55},
      {lr_shape::wsd, 104, 0.1},
      {lr_shape::wsd, 200, 0.1},
  };
  for (const auto& row : table) {
    lr_schedule s{.shape = row.shape,
                  .lr = 1.0,
                  .min_ratio = 0.1,
                  .warmup_steps = 4,
                  .steps = 104,
                  .decay_steps = 20};
    CAPTURE(static_cast<int>(row.shape));
    CAPTURE(row.t);
    CHECK(s.at(row.t) == doctest::Approx(row.expected));
  }
  CHECK(lr_schedule{.shape = lr_shape::wsd, .lr = 1, .min_ratio = 0, .steps = 50}.at(48) ==
        doctest::Approx(0.4));  // decay_steps 0: the last tenth
  CHECK(lr_schedule{.shape = lr_shape::cosine, .lr = 2, .warmup_steps = 10, .steps = 5}.at(20) ==
        2);
}

namespace {

struct fixture {
  std::unique_ptr<device> owner = make_reference_device();
  std::unique_ptr<parameter_store> store;
  std::unique_ptr<optimizer> update;
  std::unique_ptr<stream> s;

  explicit fixture(const optimizer_settings& settings, const stage_shape* shape = nullptr) {
    const stage_shape whole = whole_model(tiny_gpt2(), 1, 4, dtype::f32);
    auto made =
        parameter_store::make(*owner, stage_chunks(tiny_gpt2(), shape ? *shape : whole), {});
    REQUIRE(made);
    store = std::move(*made);
    REQUIRE(initialize(*store, tiny_gpt2(), 3));
    auto optimizer = optimizer::make(*store, settings);
    REQUIRE(optimizer);
    update = std::move(*optimizer);
    auto stream = owner->make_stream({});
    REQUIRE(stream);
    s = std::move(*stream);
  }

  void set_gradients(float value) {
    for (int c = 0; c < store->chunk_count(); ++c)
      for (const auto& t : store->info(c).tensors)
        std::fill_n(store->grad(c) + t.offset, t.count, value);
  }
};

}  // namespace

TEST_CASE("the norm is over all tensors, per tensor too, and clipping bounds the update") {
  fixture f({.weight_decay = 0.0f, .clip_norm = 0.5f});
  f.set_gradients(2.0f);
  f.update->begin(*f.s);
  int64_t count = 0;
  for (int c = 0; c < f.store->chunk_count(); ++c) {
    f.update->norm(*f.s, c);
    for (const auto& t : f.store->info(c).tensors) count += t.count;
  }
  f.update->clip(*f.s);
  REQUIRE(f.s->synchronize());
  CHECK(*f.update->norm_squared() == doctest::Approx(4.0 * static_cast<double>(count)));
  CHECK(f.update->tensor_norms_squared(1)[0] ==
        doctest::Approx(4.0 * static_cast<double>(f.store->info(1).tensors[0].count)));
  const float before = f.store->master(0)[0];
  f.update->step(*f.s, 0, 0.01f, 1);
  REQUIRE(f.s->synchronize());
  // Adam's first step is lr whatever the scale of the gradient; m tells that it was clipped.
  CHECK(f.store->master(0)[0] == doctest::Approx(before - 0.01f).epsilon(1e-4));
  const double clipped = 2.0 * 0.5 / (2.0 * std::sqrt(static_cast<double>(count)));
  CHECK(f.store->m(0)[0] == doctest::Approx(0.1 * clipped).epsilon(1e-4));
  CHECK(f.store->grad(0)[0] == 0.0f);
}

TEST_CASE("an update counts a new weight version") {
  fixture f({});
  const uint64_t before = f.store->weight_version(1);
  f.update->begin(*f.s);
  f.update->clip(*f.s);
  f.update->step(*f.s, 1, 0.01f, 1);
  REQUIRE(f.s->synchronize());
  CHECK(f.store->weight_version(1) == before + 1);
  CHECK(f.store->weight_version(0) == before);
}

TEST_CASE("OP-1: a tied copy is not counted in the norm") {
  const auto shapes = split_stages(tiny_gpt2(), 2, 4);
  fixture f({}, &shapes[1]);
  f.set_gradients(1.0f);
  const int copy = f.store->find_chunk("embedding");
  REQUIRE(f.store->info(copy).tied_copy);
  f.update->begin(*f.s);
  f.update->norm(*f.s, copy);
  REQUIRE(f.s->synchronize());
  CHECK(*f.update->norm_squared() == 0.0);
}

}  // namespace troupe::gpu
