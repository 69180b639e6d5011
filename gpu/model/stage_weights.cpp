// Names to pointers.
#include "gpu/model/stage_weights.hpp"

#include "gpu/model/tensor_names.hpp"

namespace troupe::gpu {

matrix_parameters find_matrix(const parameter_store& store, std::string_view name) {
  const auto ref = store.find(name);
  if (!ref) return {};
  return {ref->chunk, store.weight(*ref), store.grad(*ref)};
}

matrix_parameters find_head(const parameter_store& store, const model_config& model) {
  return find_matrix(store, model.tied ? token_table_name(model.family) : head_name());
}

layer_parameters find_layer(const parameter_store& store, const model_config& model,
                            int64_t layer) {
  layer_parameters out;
  auto set = [&](const void*& weight, float*& gradient, layer_role role) {
    const auto found = find_matrix(store, tensor_name(model.family, layer, role));
    weight = found.weight;
    gradient = found.gradient;
    if (found.chunk >= 0) out.chunk = found.chunk;
  };
  const bool gated = model.activation == activation_kind::swiglu;
  auto& w = out.weights;
  auto& g = out.gradients;
  using role = layer_role;
  set(w.norm1, g.norm1, role::norm1_weight);
  set(w.qkv, g.qkv, role::q_weight);
  set(w.o, g.o, role::o_weight);
  set(w.up, g.up, gated ? role::gate_weight : role::up_weight);
  set(w.down, g.down, role::down_weight);
  if (model.block != block_form::shared_norm) set(w.norm2, g.norm2, role::norm2_weight);
  if (model.family == model_family::gpt2) {
    set(w.norm1_bias, g.norm1_bias, role::norm1_bias);
    if (model.block != block_form::shared_norm) set(w.norm2_bias, g.norm2_bias, role::norm2_bias);
  }
  if (model.attention_bias) {
    set(w.qkv_bias, g.qkv_bias, role::q_bias);
    if (model.output_bias) set(w.o_bias, g.o_bias, role::o_bias);
  }
  if (model.qk_norm) {
    set(w.q_norm, g.q_norm, role::q_norm_weight);
    set(w.k_norm, g.k_norm, role::k_norm_weight);
  }
  if (model.mlp_bias) {
    set(w.up_bias, g.up_bias, gated ? role::gate_bias : role::up_bias);
    set(w.down_bias, g.down_bias, role::down_bias);
  }
  return out;
}

}  // namespace troupe::gpu
