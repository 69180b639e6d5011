// The Hugging Face names of a model's tensors, by what they do.
#pragma once

#include <cstdint>
#include <string>

#include "io/base/model_config.hpp"

namespace troupe::gpu {

/// What a tensor does in a layer. gpt2 has q, k, v in one tensor (named by q) and an MLP without a
/// gate (named by up).
enum class layer_role : uint8_t {
  norm1_weight,
  norm1_bias,
  q_weight,
  k_weight,
  v_weight,
  q_bias,
  k_bias,
  v_bias,
  o_weight,
  o_bias,
  norm2_weight,
  norm2_bias,
  gate_weight,
  up_weight,
  gate_bias,
  up_bias,
  down_weight,
  down_bias,
  q_norm_weight,
  k_norm_weight,
};

/// E.g. "model.layers.3.self_attn.q_proj.weight". `layer` counts in the whole model.
std::string tensor_name(model_family family, int64_t layer, layer_role role);

/// "transformer.wte.weight" or "model.embed_tokens.weight".
std::string token_table_name(model_family family);
/// "transformer.wpe.weight"; gpt2 only.
std::string position_table_name();
/// Weight or bias of the last norm; llama has no bias.
std::string final_norm_name(model_family family, bool bias);
/// "lm_head.weight".
std::string head_name();

}  // namespace troupe::gpu
