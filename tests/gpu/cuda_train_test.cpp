// Whole models on the CUDA back end: the losses, norms and weights of the host's, step by step.
//
// Enough steps that layers are noted as graphs and replayed, and every variant of attention is
// taken: tensor cores for heads of 64, the plain kernels for odd ones.
#include <doctest/doctest.h>

#include "gpu/cuda.hpp"
#include "tests/gpu/cuda_any.hpp"
#include "tests/gpu/training_runs.hpp"

namespace troupe::gpu {

using namespace testing;

namespace {

void check(const model_config& model, const local_options& options) {
  auto gpu = any_gpu();
  if (!gpu) return;
  auto host = make_host_device(1);
  const auto want = train_steps(*host, model, options);
  const auto got = train_steps(*gpu, model, options);
  check_runs(got, want,
             options.compute == dtype::f32 ? float_bounds(want) : rounding_bounds(model, options));
}

}  // namespace

TEST_CASE("cuda: float32 training has the host's losses, norms and weights") {
  for (const auto& model : {longer(tiny_gpt2()), longer(tiny_llama()), wide(tiny_llama())})
    check(model, run_options(dtype::f32));
}

TEST_CASE("cuda: bfloat16 training has the host's losses within its rounding") {
  for (const auto& model : {wide(tiny_gpt2()), wide(tiny_llama()), longer(tiny_llama())})
    check(model, run_options(dtype::bf16));
}

TEST_CASE("cuda: the parallel block and the sliding window train as on the host") {
  auto model = wide(tiny_llama());
  model.block = block_form::shared_norm;
  model.sliding_window = 9;
  check(model, run_options(dtype::bf16));
  check(model, run_options(dtype::f32));
}

TEST_CASE("cuda: two stages, two micro-batches, recomputation and LAMB train as on the host") {
  auto options = run_options(dtype::f32);
  options.stages = 2;
  options.micro_batches = 2;
  options.recompute = true;
  options.optimizer.kind = optimizer_step_args::rule::lamb;
  check(longer(tiny_gpt2()), options);
  options.compute = dtype::bf16;
  check(wide(tiny_llama()), options);
}

TEST_CASE("cuda: SM-4: whatever each layer keeps, training has the same bits") {
  auto gpu = any_gpu();
  if (!gpu) return;
  using enum activation_choice;
  for (auto model : {wide(tiny_gpt2()), wide(tiny_llama())})
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      model.layers = 4;
      auto options = run_options(type);
      options.stages = 2;
      const auto kept = train_steps(*gpu, model, options);
      options.activations = {half, recompute, keep, half};
      const auto chosen = train_steps(*gpu, model, options);
      CHECK(chosen.losses == kept.losses);
      CHECK(chosen.norms == kept.norms);
      CHECK(chosen.weights == kept.weights);
    }
}

TEST_CASE("cuda: the same steps give the same bits") {
  auto gpu = any_gpu();
  if (!gpu) return;
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    const auto first = train_steps(*gpu, wide(tiny_gpt2()), run_options(type));
    const auto second = train_steps(*gpu, wide(tiny_gpt2()), run_options(type));
    CHECK(first.losses == second.losses);
    CHECK(first.norms == second.norms);
    CHECK(first.weights == second.weights);
  }
}

}  // namespace troupe::gpu
