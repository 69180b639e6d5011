// What the files beside a tokenizer say of the tokens around a text. See text_frame.cpp.
#pragma once

#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::io {

inline constexpr error_kind<> tokenizer_config_no_object{
    "tokenizer_config_no_object", errc::bad_data, "tokenizer_config.json: not an object"};

/// The tokenizer with what a tokenizer_config.json says: BOS, EOS, and which of them go around a
/// text. `has_post_processor`: the tokenizer's own file says what goes around a text. Errors: those
/// of parse_json; tokenizer_config_no_object.
result<tokenizer_ptr> with_special_tokens(tokenizer_ptr by, std::string_view tokenizer_config,
                                          bool has_post_processor);

}  // namespace troupe::io
