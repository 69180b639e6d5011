// Generation on a GPU: the logits of the host back end, and the same tokens each time.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "gpu/model/generate.hpp"
#include "gpu/model/init.hpp"
#include "gpu/model/stage_shape.hpp"
#include "gpu/profiled_device.hpp"
#include "gpu/store/store.hpp"
#include "tests/gpu/cuda_any.hpp"
#include "tests/gpu/generated_work.hpp"
#include "tests/gpu/model_samples.hpp"

namespace troupe::gpu {

namespace {

/// A model's weights and a generator on one device.
struct generating {
  std::unique_ptr<parameter_store> store;
  std::unique_ptr<generator> made;

  generating(device& owner, const model_config& model, dtype type) {
    auto shape = whole_model(model, 1, model.max_positions, type);
    shape.training = false;
    auto stored = parameter_store::make(owner, stage_chunks(model, shape), {type, false});
    REQUIRE(stored);
    store = std::move(*stored);
    REQUIRE(initialize(*store, model, 11));
    auto begun = generator::make(*store, model, model.max_positions, 1);
    REQUIRE(begun);
    made = std::move(*begun);
  }
};

}  // namespace

TEST_CASE("GEN-1: a GPU goes on as the host does, with cached keys, and the same way each time") {
  const auto gpu = testing::any_gpu();
  if (!gpu) return;
  const auto host = make_host_device(1);
  model_config windowed = testing::tiny_llama();
  windowed.sliding_window = 3;
  model_config qwen2 = testing::tiny_llama();
  qwen2.attention_bias = true;
  model_config qwen3 = testing::tiny_llama();
  qwen3.qk_norm = true;
  for (const auto& model : {testing::tiny_gpt2(), testing::tiny_llama(), windowed, qwen2, qwen3})
    for (const auto type : {dtype::f32, dtype::bf16}) {
      CAPTURE(to_string(model.family));
      CAPTURE(to_string(type));
      const generating on_gpu(*gpu, model, type), on_host(*host, model, type);
      const auto tokens = testing::some_tokens(8, model.vocab);
      int64_t cached = 0;
      for (const int64_t count : {3, 1, 1, 2, 1}) {
        const auto wanted = on_host.made->next_logits(tokens.data() + cached, count, cached);
        const auto found = on_gpu.made->next_logits(tokens.data() + cached, count, cached);
        REQUIRE(wanted);
        REQUIRE(found);
        REQUIRE(found->size() == wanted->size());
        cached += count;
        const double within = type == dtype::f32 ? 1e-3 : 5e-2;
        for (size_t v = 0; v < wanted->size(); ++v)
          CHECK((*found)[v] == doctest::Approx((*wanted)[v]).epsilon(within).scale(1));
        const auto best = std::ranges::max_element(*wanted) - wanted->begin();
        const float picked = *std::ranges::max_element(*found);
        CHECK((*found)[static_cast<size_t>(best)] >= picked - 2 * within);
      }
      generate_options options;
      options.max_tokens = 9;
      options.sampling.temperature = 0;
      const auto first = on_gpu.made->run({1, 2}, options);
      const auto again = on_gpu.made->run({1, 2}, options);
      REQUIRE(first);
      REQUIRE(again);
      CHECK(first->size() == 9);
      CHECK(*first == *again);
    }
}

TEST_CASE(
    "GEN-4: a token costs a GPU one row of products and one query, however long its text is") {
  const auto gpu = testing::any_gpu();
  if (!gpu) return;
  for (const auto& model : {testing::tiny_gpt2(), testing::tiny_llama()}) {
    op_profile profile;
    const auto watched = make_profiled_device(*gpu, profile);
    const generating on_gpu(*watched, model, dtype::f32);
    testing::check_work_of_tokens(*on_gpu.made, model, profile);
  }
}

}  // namespace troupe::gpu
