// A whole tiny model: gradients against finite differences, bits against layouts and recomputation.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "gpu/model/init.hpp"
#include "tests/gpu/document_rows.hpp"
#include "tests/gpu/local_trainer.hpp"
#include "tests/gpu/model_samples.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/store_bytes.hpp"

namespace troupe::gpu {

using testing::some_tokens;
using testing::tiny_gpt2;
using testing::tiny_llama;

namespace {

constexpr int64_t rows = 2, seq = 7;

std::unique_ptr<local_trainer> make_trainer(device& owner, const model_config& model,
                                            local_options options) {
  options.seq = seq;
  if (options.micro_batches == 1) options.micro_batch = rows;
  auto trainer = local_trainer::make(owner, model, options);
  REQUIRE(trainer);
  for (size_t i = 0; i < (*trainer)->stage_count(); ++i)
    REQUIRE(initialize((*trainer)->stage(i).store(), model, 42));
  return std::move(*trainer);
}

constexpr int32_t end_of_document = 18;  // the second row's first, fifth and last token

struct batch {
  std::vector<int32_t> tokens, targets;
  testing::document_rows parted;
  row_documents documents = {};  ///< those of `parted`, or a document a row
  explicit batch(const model_config& m, bool apart = false)
      : tokens(some_tokens(rows * seq, m.vocab, 1)),
        targets(some_tokens(rows * seq, m.vocab, 2)),
        parted(tokens, seq, end_of_document) {
    if (apart) documents = parted.from();
  }
};

double loss_of(local_trainer& trainer, const batch& b) {
  stage_model& stage = trainer.stage(0);
  stage.reset_loss(trainer.compute());
  stage.evaluate(trainer.compute(), std::array{stage_model::micro_batch{
                                        0, b.tokens.data(), b.targets.data(), b.documents}});
  REQUIRE(trainer.compute().synchronize());
  return *stage.loss_sum() / (rows * seq);
}

/// Every tensor: the slope of the loss along its gradient is the gradient's norm.
void check_gradients(const model_config& model, bool documents) {
  auto owner = make_reference_device();
  auto trainer = make_trainer(*owner, model, {.documents = documents});
  const batch b(model, documents);
  auto report = trainer->accumulate(b.tokens.data(), b.targets.data(), b.documents);
  REQUIRE(report);
  CHECK(report->loss == doctest::Approx(loss_of(*trainer, b)).epsilon(1e-12));
  parameter_store& store = trainer->stage(0).store();
  for (int c = 0; c < store.chunk_count(); ++c)
    for (size_t t = 0; t < store.info(c).tensors.size(); ++t) {
      const tensor_ref ref{c, static_cast<int>(t)};
      const tensor_info& tensor = store.info(ref);
      float* w = store.master(c) + tensor.offset;
      const float* g = store.grad(ref);
      const std::vector<float> kept(w, w + tensor.count);
      double norm = 0;
      for (int64_t i = 0; i < tensor.count; ++i) norm += double{g[i]} * g[i];
      norm = std::sqrt(norm);
      REQUIRE(norm > 0);
      const double step = 4e-3;
      auto shifted = [&](double by) {
        for (int64_t i = 0; i < tensor.count; ++i)
          w[i] = static_cast<float>(kept[static_cast<size_t>(i)] + by * g[i] / norm);
        const double loss = loss_of(*trainer, b);
        std::copy(kept.begin(), kept.end(), w);
        return loss;
      };
      const double slope = (shifted(step) - shifted(-step)) / (2 * step);
      INFO(tensor.name << ": slope " << slope << ", gradient norm " << norm);
      CHECK(slope == doctest::Approx(norm).epsilon(2e-3));
    }
}

std::vector<float> masters_by_name(local_trainer& trainer, const model_config& model) {
  std::vector<float> out;
  for (const auto& chunk : stage_chunks(model, whole_model(model, 1, 1, dtype::f32)))
    for (size_t i = 0; i < trainer.stage_count(); ++i) {
      parameter_store& store = trainer.stage(i).store();
      const int c = store.find_chunk(chunk.name);
      if (c < 0 || store.info(c).tied_copy) continue;
      out.insert(out.end(), store.master(c), store.master(c) + store.info(c).count);
    }
  return out;
}

struct run_result {
  std::vector<double> losses;
  std::vector<float> weights;
};

run_result three_steps(local_trainer& trainer, const model_config& model, const batch& b) {
  run_result out;
  for (int i = 0; i < 3; ++i) {
    auto step = trainer.step(b.tokens.data(), b.targets.data(), 1e-2f, b.documents);
    REQUIRE(step);
    out.losses.push_back(step->loss);
  }
  out.weights = masters_by_name(trainer, model);
  return out;
}

run_result run(const model_config& model, const local_options& options) {
  auto owner = make_reference_device();
  return three_steps(*make_trainer(*owner, model, options), model, batch(model, options.documents));
}

bool same_bits(const run_result& a, const run_result& b) {
  return a.losses == b.losses && a.weights.size() == b.weights.size() &&
         std::memcmp(a.weights.data(), b.weights.data(), a.weights.size() * sizeof(float)) == 0;
}

/// Of sums in another order.
void check_same_training(const run_result& got, const run_result& want) {
  for (size_t i = 0; i < want.losses.size(); ++i)
    CHECK(got.losses[i] == doctest::Approx(want.losses[i]).epsilon(1e-6));
  REQUIRE(got.weights.size() == want.weights.size());
  double worst = 0;
  for (size_t i = 0; i < want.weights.size(); ++i)
    worst = std::max(worst, std::abs(double{want.weights[i]} - got.weights[i]));
  CHECK(worst < 2e-3);  // Adam's first steps divide noise by noise where a gradient is tiny
}

std::vector<model_config> variants() {
  std::vector<model_config> out;
  for (auto block : {block_form::sequential, block_form::shared_norm, block_form::two_norms})
    for (model_config m : {tiny_gpt2(), tiny_llama()}) {
      m.block = block;
      out.push_back(m);
      m.sliding_window = 3;
      m.tied = !m.tied;
      if (m.family == model_family::llama) m.attention_bias = m.output_bias = m.mlp_bias = true;
      if (m.family == model_family::gpt2) m.activation = activation_kind::gelu_erf;
      out.push_back(m);
      if (m.family == model_family::gpt2) continue;
      m.output_bias = m.mlp_bias = false;  // as Qwen2 has them
      out.push_back(m);
      m.attention_bias = false;
      m.qk_norm = true;  // as Qwen3 has them
      out.push_back(m);
    }
  return out;
}

}  // namespace

TEST_CASE("gradients of every tensor are the slopes of the loss") {
  for (const model_config& model : variants()) {
    CAPTURE(static_cast<int>(model.family));
    CAPTURE(static_cast<int>(model.block));
    CAPTURE(model.tied);
    for (const bool documents : {false, true}) check_gradients(model, documents);
  }
}

TEST_CASE("SM-4: recomputation gives the same bits") {
  for (const model_config& model : variants())
    for (dtype type : {dtype::f32, dtype::bf16})
      for (const bool documents : {false, true}) {
        local_options keep, again;
        keep.compute = again.compute = type;
        keep.documents = again.documents = documents;
        again.recompute = true;
        CHECK(same_bits(run(model, keep), run(model, again)));
      }
}

TEST_CASE("room for documents changes no bit of rows without any, whatever a slot held before") {
  auto owner = make_reference_device();
  for (const model_config& model : variants())
    for (dtype type : {dtype::f32, dtype::bf16}) {
      local_options options;
      options.compute = type;
      const run_result without = run(model, options);
      options.documents = true;
      CHECK_FALSE(same_bits(run(model, options), without));
      auto trainer = make_trainer(*owner, model, options);
      const batch plain(model), apart(model, true);
      REQUIRE(trainer->accumulate(apart.tokens.data(), apart.targets.data(), apart.documents));
      REQUIRE(trainer->clear_gradients());
      CHECK(same_bits(three_steps(*trainer, model, plain), without));
    }
}

TEST_CASE("the same run twice gives the same bits") {
  CHECK(same_bits(run(tiny_gpt2(), {}), run(tiny_gpt2(), {})));
}

TEST_CASE("pipeline stages and micro-batches give the same losses and weights") {
  for (const bool documents : {false, true})
    for (const model_config& model : variants()) {
      const run_result whole = run(model, {.documents = documents});
      for (int64_t stages : {2, 3})
        for (int64_t micro : {1, 2}) {
          local_options options;
          options.documents = documents;
          options.stages = stages;
          options.micro_batches = micro;
          options.micro_batch = rows / micro;
          CAPTURE(documents);
          CAPTURE(stages);
          CAPTURE(micro);
          check_same_training(run(model, options), whole);
        }
    }
}

TEST_CASE("both copies of a tied table stay the same bits") {
  auto owner = make_reference_device();
  local_options options;
  options.stages = 2;
  for (auto kind : {optimizer_step_args::rule::adamw, optimizer_step_args::rule::lamb}) {
    options.optimizer.kind = kind;
    auto trainer = make_trainer(*owner, tiny_gpt2(), options);
    const batch b(tiny_gpt2());
    for (int i = 0; i < 3; ++i) REQUIRE(trainer->step(b.tokens.data(), b.targets.data(), 1e-2f));
    parameter_store& first = trainer->stage(0).store();
    parameter_store& last = trainer->stage(1).store();
    const int a = trainer->stage(0).tied_chunk(), z = trainer->stage(1).tied_chunk();
    REQUIRE(a >= 0);
    REQUIRE(z >= 0);
    CHECK(std::memcmp(first.master(a), last.master(z), first.bytes(a, part::master)) == 0);
  }
}

TEST_CASE("initial weights do not depend on the layout, and look normal") {
  auto owner = make_reference_device();
  const model_config model = tiny_gpt2();
  auto one = make_trainer(*owner, model, {});
  local_options split;
  split.stages = 3;
  auto three = make_trainer(*owner, model, split);
  CHECK(masters_by_name(*one, model) == masters_by_name(*three, model));

  std::vector<float> values(20000), tail(100);
  fill_normal(7, "some.weight", 0, 20000, 0.5, values.data());
  double sum = 0, squares = 0;
  for (float v : values) sum += v, squares += double{v} * v;
  CHECK(std::abs(sum / 20000) < 0.02);
  CHECK(std::sqrt(squares / 20000) == doctest::Approx(0.5).epsilon(0.02));
  for (int64_t first : {9900, 9901}) {
    fill_normal(7, "some.weight", first, 99, 0.5, tail.data());
    CHECK(std::equal(tail.begin(), tail.begin() + 99, values.begin() + first));
  }
  fill_normal(7, "other.weight", 0, 100, 0.5, tail.data());
  CHECK_FALSE(std::equal(tail.begin(), tail.end(), values.begin()));
}

TEST_CASE("residual projections start smaller, biases at 0, norms at 1") {
  auto owner = make_reference_device();
  auto trainer = make_trainer(*owner, tiny_gpt2(), {});
  parameter_store& store = trainer->stage(0).store();
  auto deviation = [&](const char* name) {
    const auto ref = store.find(name);
    REQUIRE(ref);
    const float* w = store.master(ref->chunk) + store.info(*ref).offset;
    double squares = 0;
    for (int64_t i = 0; i < store.info(*ref).count; ++i) squares += double{w[i]} * w[i];
    return std::sqrt(squares / static_cast<double>(store.info(*ref).count));
  };
  CHECK(deviation("transformer.h.0.mlp.c_fc.weight") == doctest::Approx(0.3).epsilon(0.15));
  CHECK(deviation("transformer.h.0.mlp.c_proj.weight") ==
        doctest::Approx(0.3 / std::sqrt(6.0)).epsilon(0.15));
  CHECK(deviation("transformer.h.0.ln_1.weight") == 1.0);
  CHECK(deviation("transformer.h.0.attn.c_attn.bias") == 0.0);
}

TEST_CASE("backward reports every chunk once, when its gradient is complete") {
  auto owner = make_reference_device();
  const model_config model = tiny_gpt2();
  for (int64_t stages : {1, 2}) {
    local_options options;
    options.stages = stages;
    auto trainer = make_trainer(*owner, model, options);
    const batch b(model);
    stream& s = trainer->compute();
    for (size_t i = 0; i < trainer->stage_count(); ++i) {
      if (i > 0)
        s.copy(trainer->stage(i).input(0), trainer->stage(i - 1).output(0),
               trainer->stage(i).boundary_bytes());
      trainer->stage(i).forward(
          s, std::array{stage_model::micro_batch{0, b.tokens.data(), b.targets.data()}}, 1.0f);
    }
    for (size_t i = trainer->stage_count(); i-- > 0;) {
      stage_model& stage = trainer->stage(i);
      std::vector<int> order;
      std::vector<std::vector<float>> snapshots(static_cast<size_t>(stage.store().chunk_count()));
      stage.backward(s, std::array{stage_model::micro_batch{}}, [&](int chunk) {
        order.push_back(chunk);
        auto& copy = snapshots[static_cast<size_t>(chunk)];
        copy.resize(static_cast<size_t>(stage.store().info(chunk).count));
        s.copy(copy.data(), stage.store().grad(chunk), copy.size() * sizeof(float));
      });
      REQUIRE(s.synchronize());
      CHECK(order.size() == snapshots.size());
      for (int c = 0; c < stage.store().chunk_count(); ++c) {
        const auto& copy = snapshots[static_cast<size_t>(c)];
        REQUIRE_FALSE(copy.empty());
        CHECK(std::memcmp(copy.data(), stage.store().grad(c), copy.size() * sizeof(float)) == 0);
      }
      if (i > 0)
        s.copy(trainer->stage(i - 1).output_grad(0), stage.input_grad(0), stage.boundary_bytes());
    }
  }
}

TEST_CASE("slots keep micro-batches apart: 1F1B order equals one at a time") {
  auto owner = make_reference_device();
  const model_config model = tiny_gpt2();
  stage_shape shape = split_stages(model, 2, seq)[0];
  shape.micro_batch = 1;
  shape.seq = seq;
  auto gradients = [&](bool interleaved) {
    shape.slots = interleaved ? 2 : 1;
    auto stage = stage_model::make(*owner, model, shape);
    REQUIRE(stage);
    REQUIRE(initialize((*stage)->store(), model, 42));
    auto s = owner->make_stream({});
    REQUIRE(s);
    const batch b(model);
    std::vector<float> upstream(static_cast<size_t>(seq * model.hidden), 0.25f);
    auto backward = [&](int slot) {
      (**s).copy((*stage)->output_grad(slot), upstream.data(), (*stage)->boundary_bytes());
      (*stage)->backward(**s, std::array{stage_model::micro_batch{slot}});
    };
    for (int i = 0; i < 2; ++i) {
      const int slot = interleaved ? i : 0;
      (*stage)->forward(**s, std::array{stage_model::micro_batch{slot, b.tokens.data() + i * seq}},
                        1.0f);
      if (!interleaved) backward(0);
    }
    if (interleaved) backward(0), backward(1);
    REQUIRE((**s).synchronize());
    std::vector<float> out;
    for (int c = 0; c < (*stage)->store().chunk_count(); ++c)
      out.insert(out.end(), (*stage)->store().grad(c),
                 (*stage)->store().grad(c) + (*stage)->store().info(c).count);
    return out;
  };
  CHECK(gradients(true) == gradients(false));
}

TEST_CASE("SM-6: by layer, gradients and loss have the bits of one micro-batch after the other") {
  auto owner = make_reference_device();
  for (auto model : {tiny_gpt2(), tiny_llama()}) {
    model.tied = false;  // of a tied table the head's parts come before the embedding's
    for (const bool recompute : {false, true}) {
      CAPTURE(recompute);
      const batch b(model);
      const auto pass = [&](bool by_layer) {
        stage_shape shape = whole_model(model, 1, seq, dtype::f32);
        shape.by_layer = by_layer;
        shape.recompute = recompute;
        shape.slots = by_layer ? rows : 1;
        auto stage = stage_model::make(*owner, model, shape);
        REQUIRE(stage);
        REQUIRE(initialize((*stage)->store(), model, 42));
        auto s = owner->make_stream({});
        REQUIRE(s);
        std::vector<stage_model::micro_batch> all;
        for (int i = 0; i < rows; ++i)
          all.push_back({by_layer ? i : 0, b.tokens.data() + i * seq, b.targets.data() + i * seq});
        const size_t together = by_layer ? all.size() : 1;
        for (size_t i = 0; i < all.size(); i += together) {
          (*stage)->forward(**s, std::span(all).subspan(i, together), 0.125f);
          (*stage)->backward(**s, std::span(all).subspan(i, together));
        }
        REQUIRE((**s).synchronize());
        std::vector<float> out{static_cast<float>(*(*stage)->loss_sum())};
        auto& store = (*stage)->store();
        for (int c = 0; c < store.chunk_count(); ++c)
          out.insert(out.end(), store.grad(c), store.grad(c) + store.info(c).count);
        return out;
      };
      CHECK(pass(true) == pass(false));
    }
  }
}

TEST_CASE("the plan counts what is allocated") {
  auto owner = make_reference_device();
  for (dtype type : {dtype::f32, dtype::bf16})
    for (bool recompute : {false, true}) {
      stage_shape shape = whole_model(tiny_gpt2(), 2, seq, type);
      shape.recompute = recompute;
      shape.slots = 2;
      auto stage = stage_model::make(*owner, tiny_gpt2(), shape);
      REQUIRE(stage);
      const stage_plan& plan = (*stage)->plan();
      CHECK(plan.weights + plan.masters + plan.gradients + plan.optimizer ==
            bytes_of((*stage)->store()));
      CHECK(plan.total() == plan_stage(tiny_gpt2(), shape).total());
      CHECK(plan.text().find("total") != std::string::npos);
    }
  stage_shape keep = whole_model(tiny_gpt2(), 2, seq, dtype::f32), again = keep;
  again.recompute = true;
  CHECK(plan_stage(tiny_gpt2(), again).activations_per_slot <
        plan_stage(tiny_gpt2(), keep).activations_per_slot / 2);
}

}  // namespace troupe::gpu
