// JSON from outside: parsed without exceptions and with a bound on depth, and foreign text made fit
// to print. Why: deep nesting must not eat the stack or the heap, and names from files end up in
// error messages and on terminals.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "io/base/result.hpp"

namespace troupe::io {

/// Parses one JSON document of at most `max_depth` nested arrays and objects. Error bad_data with
/// line and column. A name given twice in one object is an error too.
result<nlohmann::json> parse_json(std::string_view text, int max_depth = 64);

/// Foreign text for a message: control bytes as '?', cut after 80 bytes.
std::string shown(std::string_view text);

}  // namespace troupe::io
