// Checks and counts of a model's numbers.
#include "io/base/model_config.hpp"

#include "io/base/model_errors.hpp"

namespace troupe {

namespace {

/// Largest size of one dimension: keeps every product of two dimensions within int64.
constexpr int64_t dimension_limit = int64_t{1} << 28;
/// Most layers: every one of them is listed, tensor by tensor.
constexpr int64_t layer_limit = int64_t{1} << 16;
/// Most parameters: keeps their bytes, and sums of those, within int64.
constexpr double parameter_limit = 281474976710656;  // 2^48

error impossible(std::string text) {
  return {errc::bad_config, "impossible model: " + std::move(text)};
}

/// Of the matrices, in numbers that do not overflow.
double about_parameters(const model_config& m) {
  const auto heads = static_cast<double>(2 * m.heads + 2 * m.kv_heads);
  const double layer =
      heads * static_cast<double>(m.head_width) + static_cast<double>(m.ffn_in_width() + m.ffn);
  const auto tables = static_cast<double>(2 * m.vocab + m.max_positions);
  return static_cast<double>(m.hidden) * (static_cast<double>(m.layers) * layer + tables);
}

}  // namespace

model_config model_config::of(model_family family) {
  model_config m;
  m.family = family;
  if (family == model_family::gpt2) return m;
  m.activation = activation_kind::swiglu;
  m.tied = m.attention_bias = m.output_bias = m.mlp_bias = false;
  return m;
}

status model_config::check() const {
  struct {
    const char* name;
    int64_t value;
  } const sizes[] = {{"layers", layers},         {"hidden", hidden},
                     {"heads", heads},           {"kv_heads", kv_heads},
                     {"head width", head_width}, {"ffn", ffn},
                     {"vocab", vocab},           {"max_positions", max_positions}};
  for (const auto& [name, value] : sizes)
    if (value < 1 || value > dimension_limit) return model_size_wrong(name, value, dimension_limit);
  if (layers > layer_limit) return model_size_wrong("layers", layers, layer_limit);
  if (const double count = about_parameters(*this); count > parameter_limit)
    return model_too_large(count, parameter_limit);
  if (heads % kv_heads != 0) return heads_not_shared(heads, kv_heads);
  if (family == model_family::gpt2) {
    if (heads * head_width != hidden) return heads_do_not_fill(heads, head_width, hidden);
    if (kv_heads != heads) return impossible("gpt2 has as many key/value heads as heads");
    if (activation == activation_kind::swiglu) return impossible("gpt2 has no gated activation");
    if (qk_norm) return impossible("gpt2 has no norms of queries and keys");
  } else {
    if (head_width % 2 != 0) return head_width_odd(head_width);
    if (activation != activation_kind::swiglu) return impossible("llama has a gated activation");
  }
  if (output_bias && !attention_bias)
    return impossible("attention's output has a bias, but queries, keys and values have none");
  if (qk_norm && head_width > 512) return impossible("norms of heads wider than 512");
  if (!(norm_eps >= 0)) return model_number_negative("norm_eps");
  if (sliding_window < 0) return model_number_negative("sliding_window");
  return {};
}

int64_t model_config::parameters() const {
  const bool plain = family == model_family::gpt2;
  const int64_t norm_size = plain ? 2 * hidden : hidden;
  const int64_t norms = block == block_form::shared_norm ? 1 : 2;
  const int64_t attention = (qkv_width() + attention_width()) * hidden +
                            (attention_bias ? qkv_width() : 0) + (output_bias ? hidden : 0) +
                            (qk_norm ? 2 * head_width : 0);
  const int64_t mlp = (ffn_in_width() + ffn) * hidden + (mlp_bias ? ffn_in_width() + hidden : 0);
  const int64_t tables = vocab * hidden + (plain ? max_positions * hidden : 0);
  return layers * (attention + mlp + norms * norm_size) + tables + norm_size +
         (tied ? 0 : vocab * hidden);
}

int64_t model_config::matrix_parameters() const {
  const int64_t layer =
      (qkv_width() + attention_width()) * hidden + (ffn_in_width() + ffn) * hidden;
  return layers * layer + vocab * hidden;
}

double model_config::flops_of(double tokens, double pairs) const {
  return 6.0 * static_cast<double>(matrix_parameters()) * tokens +
         12.0 * static_cast<double>(layers * attention_width()) * pairs;
}

double model_config::flops_per_token(int64_t seq) const {
  return flops_of(1, static_cast<double>(seq));
}

}  // namespace troupe
