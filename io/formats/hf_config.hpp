// config.json of a Hugging Face model folder, for the GPT-2 and Llama families.
//
// Reads model_type gpt2, llama, mistral (a Llama with a sliding window), qwen2 (one with biases of
// queries, keys and values) and qwen3 (one with norms of query and key heads). The keys that give
// the shape must be there; other missing keys take the default `transformers` gives them. Keys that
// change the mathematics in a way Troupe does not do are refused by name; of dropouts it is told
// what the file itself asks for (not the 0.1 that transformers takes where GPT-2's keys are
// missing); keys that do not concern training (use_cache, task_specific_params ...) are ignored.
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

#include "io/base/error_kind.hpp"
#include "io/base/model_config.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

/// A model, and what else its config.json says.
struct hf_model_config {
  /// A file says only that the block is parallel; whether the norm is shared, the weights tell:
  /// see resolve_parallel_block. Read as two_norms.
  model_config model;
  std::string torch_dtype = "float32";  ///< float32, float16 or bfloat16
  std::optional<int64_t> bos_token_id = {};
  std::vector<int64_t> eos_token_ids = {};  ///< none, one, or several (Llama 3)
  /// The strongest dropout that the file asks for, in [0, 1), and its key; 0: none.
  double dropout = 0;
  std::string dropout_key = {};
  bool operator==(const hf_model_config&) const = default;
};

/// A key of config.json that is missing, of another type, or of a value that cannot be.
inline constexpr error_kind<std::string_view, std::string_view> hf_key_missing{
    "hf_key_missing", errc::bad_data, "config.json: \"{}\" is missing, expected {}"};
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> hf_type_wrong{
    "hf_type_wrong", errc::bad_data, "config.json: \"{}\" is {}, expected {}"};
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> hf_value_wrong{
    "hf_value_wrong", errc::bad_data, "config.json: \"{}\" is {}, expected {}"};
inline constexpr error_kind<> hf_no_object{"hf_no_object", errc::bad_data,
                                           "config.json is not an object"};
/// Mathematics that Troupe does not do.
inline constexpr error_kind<std::string_view, std::string_view> hf_unsupported{
    "hf_unsupported", errc::bad_config, "config.json: \"{}\": {} is not supported",
    "choose a GPT-2, Llama, Mistral, Qwen2 or Qwen3 model"};
/// Positions that are stretched in a way that Troupe does not do.
inline constexpr error_kind<std::string_view, std::string_view> hf_rope_unsupported{
    "hf_rope_unsupported", errc::bad_config, "config.json: \"{}\": {} is not supported",
    "\"default\" and \"llama3\" are; where sequences stay within the length that the model was "
    "first "
    "trained with, it can be taken out of config.json"};
/// A folder that asks to be trained with dropout, of which there is none.
inline constexpr error_kind<std::string_view, double> hf_dropout{
    "hf_dropout", errc::bad_config, "config.json: \"{}\" = {}: dropout is not supported",
    "set model.dropout = 0 to train without it"};

/// Parses and checks a config.json text.
result<hf_model_config> parse_hf_config(std::string_view text);

/// Reads `path`, a config.json or the folder holding one.
result<hf_model_config> read_hf_config(const std::filesystem::path& path);

/// The JSON text that transformers reads back as the same model. A Llama with a sliding window and
/// no parallel block is written as Mistral when Mistral can say it (no biases, no scaling), because
/// transformers honours the key only there. `origin`: the config.json it began from, if any, whose
/// keys that say nothing of the mathematics are carried over (dropouts, token ids that are not
/// given, whatever else its makers put there).
std::string format_hf_config(const hf_model_config& config, std::string_view origin = {});

/// Settles two_norms to shared_norm when the weights hold no second norm (ln_2 or
/// post_attention_layernorm of layer 0). Error bad_data when a sequential block lacks it.
status resolve_parallel_block(model_config& model, bool has_second_norm);

}  // namespace troupe::io
