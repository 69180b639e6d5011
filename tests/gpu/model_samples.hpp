// Tiny models and token rows that several tests use.
#pragma once

#include <cstdint>
#include <vector>

#include "io/base/model_config.hpp"

namespace troupe::gpu::testing {

inline model_config tiny_gpt2() {
  model_config m;
  m.layers = 3;
  m.hidden = 16;
  m.heads = m.kv_heads = 4;
  m.head_width = 4;
  m.ffn = 24;
  m.vocab = 19;
  m.max_positions = 12;
  m.init_std = 0.3;
  return m;
}

inline model_config tiny_llama() {
  model_config m = tiny_gpt2();
  m.family = model_family::llama;
  m.kv_heads = 2;
  m.head_width = 6;  // H * D is not C on purpose
  m.activation = activation_kind::swiglu;
  m.attention_bias = m.output_bias = m.mlp_bias = false;
  m.tied = false;
  return m;
}

/// Token ids below `vocab` that look like nothing.
inline std::vector<int32_t> some_tokens(size_t count, int64_t vocab, uint32_t salt = 1) {
  std::vector<int32_t> out(count);
  uint32_t x = 2463534242u ^ (salt * 2654435761u);
  for (auto& token : out) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    token = static_cast<int32_t>(x % static_cast<uint32_t>(vocab));
  }
  return out;
}

}  // namespace troupe::gpu::testing
