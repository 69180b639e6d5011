// Numbers of models: what is refused, how much there is, how stages share it.
#include "io/base/model_config.hpp"

#include <doctest/doctest.h>

#include "gpu/model/rope_table.hpp"
#include "gpu/model/stage_shape.hpp"
#include "io/base/model_errors.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/model_samples.hpp"

namespace troupe::gpu {

using testing::tiny_gpt2;
using testing::tiny_llama;

namespace {

int64_t stored_parameters(const model_config& model) {
  int64_t sum = 0;
  for (const auto& chunk : stage_chunks(model, whole_model(model, 1, 1, dtype::f32)))
    for (const auto& tensor : chunk.tensors) sum += tensor.count;
  return sum;
}

model_config gpt2_124m() {
  model_config m;
  m.layers = m.heads = m.kv_heads = 12;
  m.hidden = 768;
  m.head_width = 64;
  m.ffn = 3072;
  m.vocab = 50257;
  m.max_positions = 1024;
  return m;
}

}  // namespace

TEST_CASE("parameter counts are those of the tensors") {
  CHECK(gpt2_124m().parameters() == 124439808);  // as published for the smallest GPT-2
  CHECK(stored_parameters(gpt2_124m()) == 124439808);
  for (model_config m : {tiny_gpt2(), tiny_llama()})
    for (auto block : {block_form::sequential, block_form::shared_norm, block_form::two_norms})
      for (bool flag : {false, true}) {
        m.block = block;
        m.tied = flag;
        if (m.family == model_family::llama) m.attention_bias = m.output_bias = m.mlp_bias = flag;
        CHECK(m.parameters() == stored_parameters(m));
        if (m.family == model_family::gpt2) continue;
        m.output_bias = false;
        m.qk_norm = !flag;
        CHECK(m.parameters() == stored_parameters(m));
      }
}

TEST_CASE("matrix parameters leave out tables, norms and biases, and count the head") {
  const model_config m = gpt2_124m();
  CHECK(m.matrix_parameters() == 12 * 12 * 768 * 768 + 50257 * 768);
  CHECK(m.flops_per_token(1024) ==
        doctest::Approx(6.0 * static_cast<double>(m.matrix_parameters()) + 12.0 * 12 * 768 * 1024));
  // A row of 1024 tokens, and the same row of two documents, of 256 and 768 tokens.
  CHECK(m.flops_of(1024, 1024.0 * 1024) == doctest::Approx(1024 * m.flops_per_token(1024)));
  CHECK(m.flops_of(1024, 256.0 * 256 + 768.0 * 768) ==
        doctest::Approx(256 * m.flops_per_token(256) + 768 * m.flops_per_token(768)));
}

TEST_CASE("impossible models are refused with the numbers") {
  CHECK(tiny_gpt2().check());
  CHECK(tiny_llama().check());
  auto refused = [](const model_config& m) {
    const status s = m.check();
    return s ? error() : s.error();
  };
  model_config m = tiny_gpt2();
  m.heads = m.kv_heads = 3;
  CHECK(refused(m) == heads_do_not_fill(3, 4, 16));
  m = tiny_gpt2();
  m.layers = 0;
  CHECK(is_error(refused(m), model_size_wrong, "layers", 0));
  m = tiny_gpt2();
  m.vocab = int64_t{1} << 40;
  CHECK(is_error(refused(m), model_size_wrong, "vocab", int64_t{1} << 40));
  m = tiny_llama();
  m.kv_heads = 3;
  CHECK(is_error(refused(m), heads_not_shared, 3));
  m = tiny_llama();
  m.head_width = 5;
  CHECK(refused(m) == head_width_odd(5));
  m = tiny_llama();
  m.sliding_window = -1;
  CHECK(refused(m) == model_number_negative("sliding_window"));
}

TEST_CASE("impossible stages are refused") {
  const model_config m = tiny_gpt2();
  stage_shape s = whole_model(m, 1, 4, dtype::f32);
  CHECK(check(m, s));
  s.seq = 13;
  CHECK_FALSE(check(m, s));
  s = whole_model(m, 1, 4, dtype::f32);
  s.last_layer = 4;
  CHECK_FALSE(check(m, s));
  s = whole_model(m, 1, 4, dtype::f32);
  s.has_head = false;
  CHECK_FALSE(check(m, s));
  s = whole_model(m, 1, 4, dtype::f32);
  s.slots = 0;
  CHECK_FALSE(check(m, s));
}

TEST_CASE("layers are shared out so that the slowest stage is as quick as can be") {
  model_config m = gpt2_124m();  // the head weighs about five layers
  auto layers = [&](int64_t stages) {
    std::vector<int64_t> out;
    for (const auto& s : split_stages(m, stages, 1024)) out.push_back(s.layers());
    return out;
  };
  CHECK(layers(1) == std::vector<int64_t>{12});
  CHECK(layers(2) == std::vector<int64_t>{8, 4});
  CHECK(layers(12) == std::vector<int64_t>(12, 1));
  m.vocab = 50;
  CHECK(layers(4) == std::vector<int64_t>{3, 3, 3, 3});
  CHECK(layers(5) == std::vector<int64_t>{3, 3, 2, 2, 2});
  for (int64_t stages = 1; stages <= 12; ++stages) {
    const auto shapes = split_stages(m, stages, 1024);
    int64_t next = 0;
    for (const auto& s : shapes) {
      CHECK(s.first_layer == next);
      CHECK(check(m, s));
      next = s.last_layer;
    }
    CHECK(next == 12);
  }
}

TEST_CASE("Llama 3 rescaling slows long waves, keeps short ones and blends between") {
  model_config m = tiny_llama();
  m.head_width = 128;
  m.rope_theta = 500000;
  const auto plain = rope_frequencies(m);
  m.rope = {8, 1, 4, 8192};
  const auto scaled = rope_frequencies(m);
  CHECK(scaled.front() == plain.front());
  CHECK(scaled.back() == doctest::Approx(plain.back() / 8));
  size_t between = 0;
  for (size_t i = 0; i < plain.size(); ++i)
    if (scaled[i] < plain[i] * 0.999 && scaled[i] > plain[i] / 8 * 1.001) ++between;
  CHECK(between > 0);
}

}  // namespace troupe::gpu
