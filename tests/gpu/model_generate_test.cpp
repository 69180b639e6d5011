// Generation: cached logits equal a full forward pass, the seed decides, the context may overflow.
#include "gpu/model/generate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "gpu/model/init.hpp"
#include "gpu/model/stage_model.hpp"
#include "gpu/profiled_device.hpp"
#include "tests/gpu/generated_work.hpp"
#include "tests/gpu/model_samples.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

namespace troupe::gpu {

using testing::some_tokens;
using testing::tiny_gpt2;
using testing::tiny_llama;

namespace {

struct whole {
  std::unique_ptr<device> owner;
  std::unique_ptr<stage_model> stage;
  model_config model;

  explicit whole(const model_config& m, dtype type = dtype::f32,
                 std::unique_ptr<device> on = make_reference_device())
      : owner(std::move(on)), model(m) {
    stage_shape shape = whole_model(m, 1, 8, type);
    shape.training = false;
    auto made = stage_model::make(*owner, m, shape);
    REQUIRE(made);
    stage = std::move(*made);
    REQUIRE(initialize(stage->store(), m, 11));
  }

  std::unique_ptr<generator> generate(int64_t context = 0) {
    auto made = generator::make(stage->store(), model, context, 1);
    REQUIRE(made);
    return std::move(*made);
  }
};

}  // namespace

TEST_CASE("logits from cached keys are those of a full forward pass") {
  model_config windowed = tiny_llama();
  windowed.sliding_window = 3;
  windowed.block = block_form::shared_norm;
  model_config qwen2 = tiny_llama();
  qwen2.attention_bias = true;
  model_config qwen3 = tiny_llama();
  qwen3.qk_norm = true;
  for (const model_config& model : {tiny_gpt2(), tiny_llama(), windowed, qwen2, qwen3}) {
    whole w(model);
    const auto tokens = some_tokens(8, model.vocab);
    auto s = w.owner->make_stream({});
    REQUIRE(s);
    const auto vocab = static_cast<size_t>(model.vocab);
    std::vector<float> full(8 * vocab);
    w.stage->logits(**s, 0, tokens.data(), 0, 8, full.data());
    REQUIRE((*s)->synchronize());
    auto generate = w.generate();
    int64_t cached = 0;
    for (int64_t count : {3, 1, 1, 2, 1}) {  // a prompt, single tokens, and a piece in between
      auto logits = generate->next_logits(tokens.data() + cached, count, cached);
      REQUIRE(logits);
      cached += count;
      for (size_t v = 0; v < vocab; ++v)
        CHECK((*logits)[v] ==
              doctest::Approx(full[static_cast<size_t>(cached - 1) * vocab + v]).epsilon(1e-4));
    }
  }
}

TEST_CASE("GEN-1: the seed decides, greedy needs none") {
  whole w(tiny_gpt2());
  auto generate = w.generate();
  auto run = [&](uint64_t seed, double temperature) {
    generate_options options;
    options.max_tokens = 9;
    options.sampling.seed = seed;
    options.sampling.temperature = temperature;
    auto out = generate->run({1, 2}, options);
    REQUIRE(out);
    return *out;
  };
  CHECK(run(1, 1.0) == run(1, 1.0));
  CHECK(run(1, 1.0) != run(2, 1.0));
  CHECK(run(1, 0.0) == run(2, 0.0));
}

TEST_CASE("GEN-4: a token costs one row of products and one query, however long its text is") {
  op_profile profile;
  const auto inner = make_reference_device();
  whole w(tiny_llama(), dtype::f32, make_profiled_device(*inner, profile));
  testing::check_work_of_tokens(*w.generate(), w.model, profile);
}

TEST_CASE("bf16 generation runs and stays inside the vocabulary") {
  whole w(tiny_llama(), dtype::bf16);
  auto out = w.generate()->run({3}, {.max_tokens = 6});
  REQUIRE(out);
  CHECK(out->size() == 6);
  for (int32_t token : *out) CHECK((token >= 0 && token < w.model.vocab));
}

TEST_CASE("GEN-2: generation goes on past the end of the context") {
  whole w(tiny_gpt2());
  auto generate = w.generate(6);
  auto out = generate->run(some_tokens(20, 19), {.max_tokens = 30});
  REQUIRE(out);
  CHECK(out->size() == 30);
  auto narrow = w.generate(1)->run({4}, {.max_tokens = 3});
  REQUIRE(narrow);
  CHECK(narrow->size() == 3);
}

TEST_CASE("generation ends at a stop token or when told to") {
  whole w(tiny_gpt2());
  auto generate = w.generate();
  auto free = generate->run({1}, {.max_tokens = 8});
  REQUIRE(free);
  const int32_t stop = (*free)[4];
  auto stopped = generate->run({1}, {.max_tokens = 8, .stop_tokens = {stop}});
  REQUIRE(stopped);
  CHECK(stopped->size() <= 4);
  int seen = 0;
  auto told = generate->run({1}, {.max_tokens = 8}, [&](int32_t) { return ++seen < 2; });
  REQUIRE(told);
  CHECK(told->size() == 2);
}

TEST_CASE("prompts that cannot be are refused") {
  whole w(tiny_gpt2());
  auto generate = w.generate();
  CHECK_FALSE(generate->run({}, {}));
  CHECK_FALSE(generate->run({19}, {}));
  CHECK_FALSE(generate->run({-1}, {}));
}

TEST_CASE("the sampler cuts off by rank and by mass, and follows the probabilities") {
  const std::vector<float> logits = {0.0f, 2.0f, 1.0f, std::numeric_limits<float>::quiet_NaN(),
                                     -1.0f};
  auto counts = [&](const sampling_options& options) {
    sampler pick(options);
    std::vector<int> out(logits.size());
    for (int i = 0; i < 4000; ++i) ++out[static_cast<size_t>(pick.pick(logits))];
    return out;
  };
  auto plain = counts({});
  CHECK(plain[3] == 0);
  double total = 0;
  for (size_t i : {0u, 1u, 2u, 4u}) total += std::exp(static_cast<double>(logits[i]));
  for (size_t i : {0u, 1u, 2u, 4u})
    CHECK(plain[i] / 4000.0 == doctest::Approx(std::exp(double{logits[i]}) / total).epsilon(0.12));
  auto two = counts({.top_k = 2});
  CHECK(two[0] + two[4] == 0);
  CHECK(two[2] > 0);
  auto nucleus = counts({.top_p = 0.6});  // the likeliest has 0.64
  CHECK(nucleus[1] == 4000);
  auto greedy = counts({.temperature = 0});
  CHECK(greedy[1] == 4000);
  auto cold = counts({.temperature = 0.1});
  CHECK(cold[1] > 3990);
}

TEST_CASE("GEN-1: a repetition penalty changes the logits of seen tokens as transformers does") {
  // What its RepetitionPenaltyLogitsProcessor makes of them after the tokens 5, 3, 5 and 1.
  const std::vector<float> logits = {0.0f, 2.0f, 1.0f, -1.0f, -0.5f, 3.0f};
  for (const auto& [penalty, wanted] :
       {std::pair{1.0, std::vector<float>{0.0f, 2.0f, 1.0f, -1.0f, -0.5f, 3.0f}},
        {1.3, {0.0f, 1.538461566f, 1.0f, -1.299999952f, -0.5f, 2.307692289f}},
        {2.0, {0.0f, 1.0f, 1.0f, -2.0f, -0.5f, 1.5f}},
        {0.5, {0.0f, 4.0f, 1.0f, -0.5f, -0.5f, 6.0f}}}) {
    CAPTURE(penalty);
    // Cut off by mass, too: at a lower temperature than 1, so before the penalty it would differ.
    for (const double temperature : {0.0, 1.0, 0.7})
      for (const double top_p : {1.0, 0.8}) {
        sampler penalised({.temperature = temperature,
                           .top_k = 4,
                           .top_p = top_p,
                           .repetition_penalty = penalty});
        for (int32_t seen : {5, 3, 5, 1}) penalised.saw(seen);
        sampler plain({.temperature = temperature, .top_k = 4, .top_p = top_p});
        for (int i = 0; i < 200; ++i) CHECK(penalised.pick(logits) == plain.pick(wanted));
      }
  }
}

TEST_CASE("a penalty that leaves no number to a seen token, and tokens beyond the logits") {
  sampler pick({.temperature = 0, .repetition_penalty = 1e-60});
  for (int32_t seen : {0, 7}) pick.saw(seen);
  CHECK(pick.pick(std::vector<float>{0.0f, -1.0f}) == 1);  // 0 / 0 is not a number
}

TEST_CASE("GEN-3: all of the prompt and of what was picked is remembered beyond the context") {
  whole w(tiny_gpt2());
  auto generate = w.generate(1);  // each token follows from the last alone
  constexpr float penalty = 1e3f;
  const generate_options options{.max_tokens = 12,
                                 .sampling = {.temperature = 0, .repetition_penalty = penalty}};
  /// The likeliest tokens behind `all`, which are penalised; without memory, the last of them.
  const auto likeliest = [&](std::vector<int32_t> all, bool remembers) {
    std::vector<int32_t> out;
    while (std::ssize(out) < options.max_tokens) {
      auto logits = *generate->next_logits(&all.back(), 1, 0);
      const auto from = remembers ? all.begin() : all.end() - 1;
      for (const int32_t seen : std::set(from, all.end())) {
        float& logit = logits[static_cast<size_t>(seen)];
        logit = logit < 0 ? logit * penalty : logit / penalty;
      }
      const auto top = std::max_element(logits.begin(), logits.end());
      out.push_back(static_cast<int32_t>(top - logits.begin()));
      all.push_back(out.back());
    }
    return out;
  };
  int otherwise = 0;
  for (int32_t first = 0; first < 19; ++first) {
    const std::vector<int32_t> prompt{first, (first + 1) % 19, (first + 2) % 19};
    const auto out = generate->run(prompt, options);
    REQUIRE(out);
    CHECK(*out == likeliest(prompt, true));
    if (*out != likeliest(prompt, false)) ++otherwise;
  }
  CHECK(otherwise > 0);
}

}  // namespace troupe::gpu
