// Two tables of names, one per family.
#include "gpu/model/tensor_names.hpp"

#include <fmt/format.h>

#include <array>

namespace troupe::gpu {

namespace {

constexpr std::array<const char*, 20> gpt2_names = {"ln_1.weight",
                                                    "ln_1.bias",
                                                    "attn.c_attn.weight",
                                                    "",
                                                    "",
                                                    "attn.c_attn.bias",
                                                    "",
                                                    "",
                                                    "attn.c_proj.weight",
                                                    "attn.c_proj.bias",
                                                    "ln_2.weight",
                                                    "ln_2.bias",
                                                    "",
                                                    "mlp.c_fc.weight",
                                                    "",
                                                    "mlp.c_fc.bias",
                                                    "mlp.c_proj.weight",
                                                    "mlp.c_proj.bias",
                                                    "",
                                                    ""};

constexpr std::array<const char*, 20> llama_names = {"input_layernorm.weight",
                                                     "",
                                                     "self_attn.q_proj.weight",
                                                     "self_attn.k_proj.weight",
                                                     "self_attn.v_proj.weight",
                                                     "self_attn.q_proj.bias",
                                                     "self_attn.k_proj.bias",
                                                     "self_attn.v_proj.bias",
                                                     "self_attn.o_proj.weight",
                                                     "self_attn.o_proj.bias",
                                                     "post_attention_layernorm.weight",
                                                     "",
                                                     "mlp.gate_proj.weight",
                                                     "mlp.up_proj.weight",
                                                     "mlp.gate_proj.bias",
                                                     "mlp.up_proj.bias",
                                                     "mlp.down_proj.weight",
                                                     "mlp.down_proj.bias",
                                                     "self_attn.q_norm.weight",
                                                     "self_attn.k_norm.weight"};

}  // namespace

std::string tensor_name(model_family family, int64_t layer, layer_role role) {
  const auto i = static_cast<size_t>(role);
  if (family == model_family::gpt2) return fmt::format("transformer.h.{}.{}", layer, gpt2_names[i]);
  return fmt::format("model.layers.{}.{}", layer, llama_names[i]);
}

std::string token_table_name(model_family family) {
  return family == model_family::gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
}

std::string position_table_name() {
  return "transformer.wpe.weight";
}

std::string final_norm_name(model_family family, bool bias) {
  if (family == model_family::llama) return "model.norm.weight";
  return bias ? "transformer.ln_f.bias" : "transformer.ln_f.weight";
}

std::string head_name() {
  return "lm_head.weight";
}

}  // namespace troupe::gpu
