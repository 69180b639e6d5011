// config.json of a Hugging Face model folder, for the GPT-2 and Llama families, as a plain struct.
//
// Reads model_type gpt2, llama and mistral (a Llama with a sliding window). The keys that give the
// shape must be there; other missing keys take the default `transformers` gives them. Keys that
// change the mathematics in a way Troupe does not do are refused by name; keys that do not concern
// training (use_cache, task_specific_params, dropouts ...) are ignored.
// What format_hf_config says loads in transformers unchanged. Two keys of ours are extensions that
// transformers ignores: "use_parallel_residual" (GPT-NeoX's name) and, for GPT-2 and Llama,
// "sliding_window" (Mistral's name, key > query - window).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::io {

enum class hf_family : uint8_t { gpt2, llama };

/// gelu_new = the tanh form; gelu = the erf form; silu = x * sigmoid(x) (SwiGLU's gate).
enum class hf_activation : uint8_t { gelu_new, gelu, silu };

/// none: x + Attn(LN1 x), then + MLP(LN2 ·). shared_norm: x + Attn(LN1 x) + MLP(LN1 x).
/// two_norms: x + Attn(LN1 x) + MLP(LN2 x).
enum class hf_parallel_block : uint8_t { none, shared_norm, two_norms };

/// rope_scaling of type "llama3" (Llama 3.1 and later).
struct hf_llama3_rope {
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_positions = 8192;
  bool operator==(const hf_llama3_rope&) const = default;
};

/// The shape and constants of a model.
struct hf_model_config {
  hf_family family = hf_family::gpt2;
  int64_t layers = 0;         ///< L
  int64_t heads = 0;          ///< H, query heads
  int64_t kv_heads = 0;       ///< key/value heads; divides heads
  int64_t head_dim = 0;       ///< D
  int64_t hidden = 0;         ///< C
  int64_t ffn = 0;            ///< inner width of the MLP
  int64_t vocab = 0;          ///< V
  int64_t max_positions = 0;  ///< longest sequence
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;                ///< llama only
  std::optional<hf_llama3_rope> rope_llama3;  ///< llama only; empty: plain
  bool tied = true;                           ///< the head shares the embedding
  hf_activation activation = hf_activation::gelu_new;
  bool attention_bias = true;  ///< biases in q, k, v and output projections (gpt2: always)
  bool mlp_bias = true;        ///< biases in the MLP's matrices (gpt2: always)
  int64_t sliding_window = 0;  ///< keys a query sees, itself included; 0 = all before it
  /// A file says only that the block is parallel; whether the norm is shared, the weights tell:
  /// see resolve_parallel_block. Read as two_norms.
  hf_parallel_block parallel_block = hf_parallel_block::none;
  std::string torch_dtype = "float32";  ///< float32, float16 or bfloat16
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_ids;  ///< none, one, or several (Llama 3)
  bool operator==(const hf_model_config&) const = default;
};

/// Parses and checks a config.json text. Errors (bad_data) name the key, what it is and what was
/// expected; unsupported mathematics gives bad_config with a hint.
result<hf_model_config> parse_hf_config(std::string_view text);

/// Reads `path`, a config.json or the folder holding one.
result<hf_model_config> read_hf_config(const std::filesystem::path& path);

/// The JSON text that transformers reads back as the same model. A Llama with a sliding window and
/// no parallel block is written as Mistral when Mistral can say it (no biases, no scaling), because
/// transformers honours the key only there.
std::string format_hf_config(const hf_model_config& config);

/// Settles two_norms to shared_norm when the weights hold no second norm (ln_2 or
/// post_attention_layernorm of layer 0). Error bad_data when a sequential block lacks it.
status resolve_parallel_block(hf_model_config& config, bool has_second_norm);

}  // namespace troupe::io
