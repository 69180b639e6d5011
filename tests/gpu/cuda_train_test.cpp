// Whole models on the CUDA back end: the losses, norms and weights of the host's, step by step.
//
// Enough steps that layers are noted as graphs and replayed, and every variant of attention is
// taken: tensor cores for heads of 64, the plain kernels for odd ones.
#include <doctest/doctest.h>

#include <cmath>

#include "gpu/cuda.hpp"
#include "gpu/model/init.hpp"
#include "gpu/model/local_trainer.hpp"
#include "tests/gpu/cuda_any.hpp"
#include "tests/gpu/model_samples.hpp"

namespace troupe::gpu {

using testing::any_gpu;
using testing::some_tokens;
using testing::tiny_gpt2;
using testing::tiny_llama;

namespace {

constexpr int64_t rows = 2, seq = 21;

struct outcome {
  std::vector<double> losses, norms;
  std::vector<float> weights;
};

/// Every master weight of the trainer's stages, one after the other.
std::vector<float> masters(local_trainer& trainer) {
  std::vector<float> out;
  for (size_t i = 0; i < trainer.stage_count(); ++i) {
    parameter_store& store = trainer.stage(i).store();
    for (int c = 0; c < store.chunk_count(); ++c) {
      std::vector<float> chunk(static_cast<size_t>(store.info(c).count));
      REQUIRE(store.read(c, part::master, chunk.data()));
      out.insert(out.end(), chunk.begin(), chunk.end());
    }
  }
  return out;
}

outcome train(device& owner, const model_config& model, local_options options) {
  options.micro_batch = rows / options.micro_batches;
  options.seq = seq;
  auto made = local_trainer::make(owner, model, options);
  REQUIRE_MESSAGE(made, (made ? std::string() : render(made.error())));
  auto& trainer = **made;
  for (size_t i = 0; i < trainer.stage_count(); ++i)
    REQUIRE(initialize(trainer.stage(i).store(), model, 42));
  const auto tokens = some_tokens(rows * seq, model.vocab, 1);
  const auto targets = some_tokens(rows * seq, model.vocab, 2);
  outcome out;
  for (int i = 0; i < 5; ++i) {
    auto step = trainer.step(tokens.data(), targets.data(), 1e-3f);
    REQUIRE_MESSAGE(step, (step ? std::string() : render(step.error())));
    out.losses.push_back(step->loss);
    out.norms.push_back(step->norm);
  }
  out.weights = masters(trainer);
  return out;
}

void compare(const outcome& got, const outcome& want, double losses, double norms, double weights) {
  for (size_t i = 0; i < want.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got.losses[i] - want.losses[i]) <= losses * want.losses[i]);
    CHECK(std::abs(got.norms[i] - want.norms[i]) <= norms * want.norms[i]);
  }
  REQUIRE(got.weights.size() == want.weights.size());
  // AdamW's first steps go by the sign of a gradient, and that of a tiny one is rounding's to say:
  // single weights may differ by a step, most may not.
  double squares = 0;
  for (size_t i = 0; i < want.weights.size(); ++i)
    squares += std::pow(double{got.weights[i]} - double{want.weights[i]}, 2);
  CHECK(std::sqrt(squares / static_cast<double>(want.weights.size())) <= weights);
  CHECK(want.losses.back() < want.losses.front());
}

/// With room for the rows of these tests.
model_config longer(model_config m) {
  m.max_positions = 32;
  return m;
}

/// Heads of 64, grouped, so that the tensor cores' kernels are taken.
model_config wide(model_config m) {
  m.layers = 2;
  m.heads = 2;
  m.kv_heads = m.family == model_family::gpt2 ? 2 : 1;
  m.head_width = 64;
  m.hidden = 128;
  m.ffn = 160;
  m.vocab = 67;
  m.max_positions = 32;
  m.init_std = 0.1;
  return m;
}

void check(const model_config& model, const local_options& options) {
  auto gpu = any_gpu();
  if (!gpu) return;
  auto host = make_host_device(1);
  const auto want = train(*host, model, options);
  const auto got = train(*gpu, model, options);
  if (options.compute == dtype::f32)
    compare(got, want, 1e-5, 1e-4, 1e-4);
  else
    compare(got, want, 4e-3, 3e-2, 6e-4);
}

local_options with(dtype compute) {
  local_options o;
  o.compute = compute;
  o.optimizer.clip_norm = 1.0f;
  o.optimizer.weight_decay = 0.1f;
  return o;
}

}  // namespace

TEST_CASE("cuda: float32 training has the host's losses, norms and weights") {
  for (const auto& model : {longer(tiny_gpt2()), longer(tiny_llama()), wide(tiny_llama())})
    check(model, with(dtype::f32));
}

TEST_CASE("cuda: bfloat16 training has the host's losses within its rounding") {
  for (const auto& model : {wide(tiny_gpt2()), wide(tiny_llama()), longer(tiny_llama())})
    check(model, with(dtype::bf16));
}

TEST_CASE("cuda: the parallel block and the sliding window train as on the host") {
  auto model = wide(tiny_llama());
  model.block = block_form::shared_norm;
  model.sliding_window = 9;
  check(model, with(dtype::bf16));
  check(model, with(dtype::f32));
}

TEST_CASE("cuda: two stages, two micro-batches, recomputation and LAMB train as on the host") {
  auto options = with(dtype::f32);
  options.stages = 2;
  options.micro_batches = 2;
  options.recompute = true;
  options.optimizer.kind = optimizer_args::rule::lamb;
  check(longer(tiny_gpt2()), options);
  options.compute = dtype::bf16;
  check(wide(tiny_llama()), options);
}

TEST_CASE("cuda: the same steps give the same bits") {
  auto gpu = any_gpu();
  if (!gpu) return;
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    const auto first = train(*gpu, wide(tiny_gpt2()), with(type));
    const auto second = train(*gpu, wide(tiny_gpt2()), with(type));
    CHECK(first.losses == second.losses);
    CHECK(first.norms == second.norms);
    CHECK(first.weights == second.weights);
  }
}

}  // namespace troupe::gpu
