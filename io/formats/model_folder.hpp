// The files of a Hugging Face model folder beside its weights.
#pragma once

#include <array>
#include <string_view>

namespace troupe::io {

/// Files that make a tokenizer, by the names under which folders have them.
inline constexpr std::array<std::string_view, 4> tokenizer_files{
    "tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt"};

/// Files that say how a tokenizer is used.
inline constexpr std::array<std::string_view, 5> tokenizer_companions{
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "chat_template.json"};

/// How the model is used: the ids that end a text, and sampling's defaults.
inline constexpr std::string_view generation_config_file = "generation_config.json";

}  // namespace troupe::io
