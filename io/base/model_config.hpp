// What a transformer is, in numbers: everything the mathematics of a model depends on.
//
// Why here, below everything: a job's [model] (io/config), a Hugging Face folder's config.json
// (io/formats) and the operations (gpu/) speak of the same model in the same words, so that nothing
// is translated between them and a family or an activation is added in one place.
//
// Letters: L layers, C hidden, H query heads, K key/value heads, D head width, F feed-forward
// width, V vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "io/base/result.hpp"

namespace troupe {

/// gpt2: layer norm, learned positions, plain MLP, biases everywhere. llama: RMS norm, RoPE, gated
/// MLP.
enum class model_family : uint8_t { gpt2, llama };

/// The transformer block. sequential: x1 = x + Attn(n1(x)), y = x1 + MLP(n2(x1)).
/// shared_norm: y = x + Attn(n1(x)) + MLP(n1(x)). two_norms: y = x + Attn(n1(x)) + MLP(n2(x)).
enum class block_form : uint8_t { sequential, shared_norm, two_norms };

/// Between the two products of the MLP.
enum class activation_kind : uint8_t {
  gelu_tanh,  ///< y[N,F] = gelu(x[N,F]), tanh form (GPT-2 "gelu_new")
  gelu_erf,   ///< exact gelu
  swiglu,     ///< y[N,F] = silu(x[:, :F]) * x[:, F:], x[N,2F] = gate then up
};

enum class norm_kind : uint8_t { layer, rms };

/// What files and flags call the values of these enums, in their order.
inline constexpr std::array<std::string_view, 2> family_names{"gpt2", "llama"};
inline constexpr std::array<std::string_view, 3> block_names{"none", "shared_norm", "two_norms"};

/// "gpt2" or "llama".
constexpr std::string_view to_string(model_family family) noexcept {
  return family_names[static_cast<size_t>(family)];
}

/// Llama 3 rescaling of the RoPE frequencies (rope_type "llama3"); factor 1 means none.
struct rope_scaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_positions = 8192;
  bool operator==(const rope_scaling& other) const = default;
};

/// A model. Defaults are GPT-2's; `check` tells whether the numbers fit together.
struct model_config {
  model_family family = model_family::gpt2;
  int64_t layers = 0;
  int64_t hidden = 0;         ///< C
  int64_t heads = 0;          ///< H
  int64_t kv_heads = 0;       ///< K, divides H
  int64_t head_width = 0;     ///< D, even for llama; H * D == C for gpt2
  int64_t ffn = 0;            ///< F
  int64_t vocab = 0;          ///< V
  int64_t max_positions = 0;  ///< longest sequence; rows of the position table for gpt2
  double norm_eps = 1e-5;
  double rope_theta = 10000;  ///< llama only
  rope_scaling rope;          ///< llama only
  bool tied = true;           ///< the head's matrix is the token table
  activation_kind activation = activation_kind::gelu_tanh;
  bool attention_bias = true;  ///< biases of q, k and v (gpt2: always)
  bool output_bias = true;     ///< bias of attention's output projection; none without those above
  bool qk_norm = false;        ///< RMS norms of each query and key head before RoPE (Qwen 3)
  bool mlp_bias = true;        ///< biases of the MLP's matrices (gpt2: always)
  int64_t sliding_window = 0;  ///< keys a query sees, itself included; 0: all before it
  block_form block = block_form::sequential;
  double init_std = 0.02;  ///< of random initial matrices

  /// What a family is where nothing says otherwise; its sizes are still 0.
  static model_config of(model_family family);

  /// Columns of the packed q, k, v rows: (H + 2K) * D.
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_width; }
  /// Columns of the attention's output: H * D.
  int64_t attention_width() const { return heads * head_width; }
  /// Columns of the MLP's first product: F, or 2F where it is gated.
  int64_t ffn_in_width() const { return activation == activation_kind::swiglu ? 2 * ffn : ffn; }
  norm_kind norm() const {
    return family == model_family::gpt2 ? norm_kind::layer : norm_kind::rms;
  }

  /// Whether the numbers fit together.
  status check() const;

  /// All parameters, a tied matrix counted once.
  int64_t parameters() const;
  /// Parameters that take part in matrix products, the head included (also where it is tied); the
  /// tables that are only looked up are left out. What "6 x matrix parameters" of throughput
  /// reports counts.
  int64_t matrix_parameters() const;
  /// Floating-point operations of training on tokens that lie in the same document as so many,
  /// added up over all of them: 6 * matrix_parameters * tokens + 12 * L * H*D * pairs. What a token
  /// does not see of its document, as it stands behind it or before its window, counts with it.
  double flops_of(double tokens, double pairs) const;
  /// Of one token of a row that is one document: 6 * matrix_parameters + 12 * L * H*D * T.
  double flops_per_token(int64_t seq) const;

  bool operator==(const model_config& other) const = default;
};

}  // namespace troupe
