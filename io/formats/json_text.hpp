// JSON from outside: parsed without exceptions and with a bound on depth, and foreign text made fit
// to print. Why: deep nesting must not eat the stack or the heap, and names from files end up in
// error messages and on terminals.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

/// Text that is no JSON (with line and column), or is JSON that nobody should read.
inline constexpr error_kind<std::string_view> not_json{"not_json", errc::bad_data, "not JSON: {}"};
inline constexpr error_kind<size_t> json_too_deep{"json_too_deep", errc::bad_data,
                                                  "JSON: nested deeper than {} levels"};
inline constexpr error_kind<std::string_view> json_name_twice{
    "json_name_twice", errc::bad_data, "JSON: duplicate name \"{}\" in one object"};

/// Parses one JSON document of at most `max_depth` nested arrays and objects.
result<nlohmann::json> parse_json(std::string_view text, int max_depth = 64);

/// Foreign text for a message: control bytes as '?', cut after 80 bytes.
std::string shown(std::string_view text);

}  // namespace troupe::io
