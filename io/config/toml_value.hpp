// Between toml++'s nodes and our values; internal to io/config. Only the readers include toml++.
#pragma once

#include <optional>
#include <string>

#include <toml++/toml.h>

#include "io/config/builder.hpp"

namespace troupe::config::detail {

/// The value of a node, if it has a type that keys can have (arrays: of strings only).
std::optional<value> to_value(const toml::node& node);
/// "a table", "an array", "a date" ...
std::string type_name(const toml::node& node);
/// Reads the array of tables `cluster.node` into the builder; `at` is the key's place.
void read_nodes(builder& into, const toml::node& node, const origin& at, const std::string& file);
/// The same of `recovery.rule`.
void read_rules(builder& into, const toml::node& node, const origin& at, const std::string& file);

}  // namespace troupe::config::detail
