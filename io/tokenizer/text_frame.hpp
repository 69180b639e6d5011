// What the files beside a tokenizer say of the tokens around a text. See text_frame.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::io {

inline constexpr error_kind<> tokenizer_config_no_object{
    "tokenizer_config_no_object", errc::bad_data,
    "tokenizer_config.json and special_tokens_map.json are JSON objects, and here one is not",
    "save the tokenizer again by transformers' save_pretrained, or take the file away"};
/// A vocabulary of another kind than GPT-2's in GPT-2's two files.
inline constexpr error_kind<std::string_view> pair_of_other_class{
    "pair_of_other_class", errc::bad_config,
    "vocab.json with merges.txt of a {} is not supported, expected a GPT2Tokenizer",
    "save a tokenizer.json beside them: AutoTokenizer.from_pretrained(FOLDER).save_pretrained"};

/// What the ids of a text are made by.
enum class tokenizer_source : uint8_t {
  json,   ///< tokenizer.json, which says itself what goes around a text
  pair,   ///< vocab.json and merges.txt
  other,  ///< SentencePiece's, llm.c's
};

/// The tokenizer with what the files beside it say: BOS, EOS, and which of them go around a text.
/// `config`: tokenizer_config.json; `map`: special_tokens_map.json, which counts where the other
/// says nothing; empty: there is none. Errors: those of parse_json; those above.
result<tokenizer_ptr> with_special_tokens(tokenizer_ptr by, std::string_view config,
                                          std::string_view map, tokenizer_source source);

/// A tokenizer.json whose post-processor puts this frame around a text, and nothing else. Errors:
/// those of parse_tokenizer_json.
result<std::string> tokenizer_json_with_frame(std::string_view text, const text_frame& frame);

}  // namespace troupe::io
