// Between toml++'s nodes and our values; internal to io/config. Only the readers include toml++.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <toml++/toml.h>

#include "io/config/builder.hpp"

namespace troupe::config::detail {

/// The value of a node, if it has a type that keys can have (arrays: of strings only).
std::optional<value> to_value(const toml::node& node);
/// "a table", "an array", "a date" ...
std::string type_name(const toml::node& node);
/// Parses text of a file; a syntax error, or that it is too long, becomes a problem.
std::optional<toml::table> parse_text(builder& into, std::string_view text,
                                      const std::string& file);
/// The text of a file; that there is none becomes a problem at `from`.
std::optional<std::string> file_text(builder& into, const std::string& file, const origin& from);
/// Reads the array of tables `cluster.node` into the builder; `at` is the key's place.
void read_nodes(builder& into, const toml::node& node, const origin& at, const std::string& file);
/// The same of `recovery.rule` and of `health.log_rule`.
void read_rules(builder& into, const toml::node& node, const origin& at, const std::string& file);
void read_log_rules(builder& into, const toml::node& node, const origin& at,
                    const std::string& file);

/// A key that holds an array of tables, and who reads it.
struct table_array {
  std::string_view key;
  decltype(&read_nodes) read;
  std::string_view example;  ///< as a flag
};
/// The one of this key, or nullptr.
const table_array* find_table_array(std::string_view key);

}  // namespace troupe::config::detail
