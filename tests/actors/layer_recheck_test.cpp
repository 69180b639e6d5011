// A layer that ranks compute to be compared: what it comes to is alike wherever it should be and
// nowhere else, and training does not notice.
#include "actors/train/layer_recheck.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "actors/train/drilled_engine.hpp"
#include "actors/train/recheck_message.hpp"
#include "gpu/model/init.hpp"
#include "tests/actors/replicas.hpp"
#include "tests/gpu/model_samples.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::pending;
using troupe::train::test::replicas;

namespace {

/// A form of a layer, and how it is computed.
struct layer_form {
  const char* name;
  model_config model;
  gpu::dtype type = gpu::dtype::f32;
  bool recompute = false;
};

std::vector<layer_form> layer_forms() {
  std::vector<layer_form> out{
      {"gpt2", gpu::testing::tiny_gpt2()},
      {"llama", gpu::testing::tiny_llama()},
      {"llama, recomputed", gpu::testing::tiny_llama(), gpu::dtype::f32, true},
      {"gpt2 in bf16", gpu::testing::tiny_gpt2(), gpu::dtype::bf16},
      {"llama in bf16, recomputed", gpu::testing::tiny_llama(), gpu::dtype::bf16, true}};
  for (const auto block : {block_form::shared_norm, block_form::two_norms})
    for (auto model : {gpu::testing::tiny_gpt2(), gpu::testing::tiny_llama()}) {
      model.block = block;
      out.push_back({"a parallel block", model, gpu::dtype::f32, block == block_form::two_norms});
    }
  return out;
}

/// Engines of a form that may recheck.
replicas engines_of(int count, const layer_form& form, const config::drill_spec* drill = nullptr) {
  const auto make = [=](const engine_options& given) -> result<std::unique_ptr<rank_engine>> {
    auto o = given;
    o.model = form.model;
    o.shape = gpu::whole_model(o.model, o.shape.micro_batch, o.shape.seq, form.type);
    o.shape.recompute = form.recompute;
    o.shape.replica = {o.at.rank, count};
    o.recheck_every = 1;
    if (drill == nullptr || o.at.rank != count - 1) return rank_engine::make(o);
    o.drills = {*drill};
    return drilled_engine::make(o, {});
  };
  replicas out(count, gpu::optimizer_step_args::rule::adamw, form.type, make);
  for (int64_t i = 0; i < 2 * troupe::train::test::batch * troupe::train::test::seq; ++i)
    out.batches->slot(0)[i] %= static_cast<int32_t>(form.model.vocab);
  return out;
}

struct rechecked_step {
  double loss = 0;
  std::vector<health::recheck_result> told;  ///< by rank; empty: nobody was asked
};

/// A step of all, before which each computes a layer, if that is wanted.
rechecked_step step_of(replicas& of, int64_t number, bool rechecks) {
  rechecked_step out;
  std::vector<pending> updates;
  for (size_t r = 0; r < of.ranks.size(); ++r) {
    op_order order{pipeline_op::recheck};
    order.step = static_cast<uint64_t>(number);
    if (rechecks) of.ranks[r]->run(order, {});
    of.forward(r, static_cast<uint64_t>(number));
    updates.push_back(of.finish(r, number));
  }
  for (auto& u : updates) {
    auto told = u.get();
    out.loss += told.loss_sum;
    CHECK(told.recheck.has_value() == rechecks);
    if (told.recheck) out.told.push_back(std::move(*told.recheck));
  }
  return out;
}

/// A model with random weights, and what its layers come to.
struct lone_model {
  std::unique_ptr<gpu::device> device = gpu::make_host_device(1);
  std::unique_ptr<gpu::stage_model> model;
  std::unique_ptr<layer_recheck> recheck;
  std::unique_ptr<gpu::stream> stream;

  lone_model(const layer_form& form, gpu::stage_shape shape) {
    shape.recompute = form.recompute;
    auto made = gpu::stage_model::make(*device, form.model, shape);
    REQUIRE(made);
    model = std::move(*made);
    REQUIRE(gpu::initialize(model->store(), form.model, 5));
    auto with = layer_recheck::make(*model, 1);
    REQUIRE(with);
    recheck = std::move(*with);
    auto s = device->make_stream({"compute", 1});
    REQUIRE(s);
    stream = std::move(*s);
  }
  explicit lone_model(const layer_form& form)
      : lone_model(form, gpu::whole_model(form.model, 2, 8, form.type)) {}

  health::recheck_result compute(uint64_t number, bool twice = false) {
    recheck->enqueue(*stream, 0, number, twice);
    REQUIRE(stream->synchronize());
    const auto told = recheck->take();
    REQUIRE(told);
    CHECK_FALSE(recheck->take());
    return *told;
  }
};

}  // namespace

TEST_CASE("LRC-1: rechecks: training comes to the same bits with them, in every form of a layer") {
  for (const auto& form : layer_forms()) {
    CAPTURE(form.name);
    auto plain = engines_of(1, form), rechecking = engines_of(1, form);
    for (int64_t step = 1; step <= 4; ++step)
      CHECK(step_of(plain, step, false).loss == step_of(rechecking, step, true).loss);
  }
  auto plain = engines_of(3, layer_forms()[3]), rechecking = engines_of(3, layer_forms()[3]);
  for (int64_t step = 1; step <= 3; ++step)
    CHECK(step_of(plain, step, false).loss == step_of(rechecking, step, step != 2).loss);
}

TEST_CASE("LRC-2: rechecks: replicas come to the same, layers take turns") {
  for (const auto& form : layer_forms()) {
    CAPTURE(form.name);
    auto three = engines_of(3, form);
    for (int64_t step = 1; step <= 3; ++step) {
      const auto told = step_of(three, step, true).told;
      REQUIRE(told.size() == 3);
      CHECK(told[0] == told[1]);
      CHECK(told[0] == told[2]);
      CHECK(told[0].layer == step % form.model.layers);
      CHECK(told[0].again.empty());  // three are enough
      CHECK(told[0].digests.size() > 8);
      for (size_t i = 1; i < told[0].digests.size(); ++i)
        CHECK(told[0].digests[i] != told[0].digests[i - 1]);
    }
  }
}

TEST_CASE("LRC-2: rechecks: a layer comes to the same in any stage, by other numbers to other") {
  for (const auto& form : layer_forms()) {
    CAPTURE(form.name);
    lone_model whole(form);
    auto shape = whole.model->shape();
    shape.first_layer = 1;
    shape.last_layer = 2;
    shape.has_embedding = shape.has_head = false;
    lone_model middle(form, shape);
    const auto of_whole = whole.compute(4), of_middle = middle.compute(4);
    CHECK(of_whole.layer == 1);
    CHECK(of_middle == of_whole);
    CHECK(whole.compute(4) == of_whole);
    CHECK(whole.compute(1).digests != of_whole.digests);
    CHECK(whole.compute(1).layer == 1);
  }
}

TEST_CASE("rechecks: fewer than three compute twice, and what is known") {
  for (const int count : {1, 2}) {
    auto few = engines_of(count, layer_forms()[1]);
    for (const auto& told : step_of(few, 1, true).told) {
      CHECK(told.again == told.digests);
      CHECK_FALSE(told.again.empty());
      CHECK(told.known_wrong == 0);
    }
  }
}

TEST_CASE("rechecks: a bit of a weight, or of a layer's output, is seen in what it comes to") {
  lone_model one(layer_forms()[1]);
  const auto good = one.compute(0);
  const int chunk = one.model->memory_of(0, 0).chunk;
  auto& store = one.model->store();
  for (size_t t = 0; t < store.info(chunk).tensors.size(); ++t) {
    CAPTURE(store.info(chunk).tensors[t].name);
    auto* weight =
        static_cast<uint32_t*>(store.weight(chunk)) + store.info(chunk).tensors[t].offset;
    *weight ^= 1u << 20;
    store.weights_changed(chunk);
    CHECK(one.compute(0).digests != good.digests);
    *weight ^= 1u << 20;
    store.weights_changed(chunk);
    CHECK(one.compute(0) == good);
  }
  // LRC-1
  const auto* gradient = store.grad(chunk);
  const auto count = static_cast<int64_t>(store.bytes(chunk, gpu::part::grad) / sizeof(float));
  CHECK(std::all_of(gradient, gradient + count, [](float g) { return g == 0; }));
}

TEST_CASE("DRE-2: drills: a bit of what is compared turns once, and no loss differs") {
  const config::drill_spec drill{"rank 2", config::drill_kind::wrong_product, 2, 0, 0};
  const auto form = layer_forms()[0];
  auto plain = engines_of(3, form), drilled = engines_of(3, form, &drill);
  for (int64_t step = 1; step <= 4; ++step) {
    CAPTURE(step);
    const auto told = step_of(drilled, step, step != 2);  // it falls due where nobody is asked
    CHECK(told.loss == step_of(plain, step, false).loss);
    if (step == 2) continue;
    CHECK(told.told[0] == told.told[1]);
    CHECK((told.told[2].digests.front() != told.told[0].digests.front()) == (step == 3));
    for (size_t i = 1; i < told.told[0].digests.size(); ++i)
      CHECK(told.told[2].digests[i] == told.told[0].digests[i]);
  }
  const config::drill_spec alone{"rank 0", config::drill_kind::wrong_product, 1, 0, 0};
  auto one = engines_of(1, form, &alone);
  const auto told = step_of(one, 1, true).told.front();
  CHECK(told.again != told.digests);
}

TEST_CASE("rechecks: what a rank tells is what the head reads") {
  const health::recheck_result told{3, 17, {1, 2}, {1, 4}, 5};
  flatbuffers::FlatBufferBuilder made;
  made.Finish(fbs::Recheck::Pack(made, to_message(told).get()));
  CHECK(recheck_of(flatbuffers::GetRoot<fbs::Recheck>(made.GetBufferPointer())) == told);
  CHECK_FALSE(recheck_of(nullptr));
  CHECK_FALSE(to_message(std::nullopt));
}
