// Arrays of tables, and tables by rows of properties; internal to io/config, for its readers.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "io/base/text.hpp"
#include "io/config/builder.hpp"
#include "io/config/toml_value.hpp"

namespace troupe::config::detail {

/// What tables of an array stand in.
struct array_place {
  std::string_view section;  ///< its key; empty: the document itself
  std::span<const property> rows;
  const origin& at;
  const std::string& file;
  std::string_view tables = {};  ///< a key beside the rows, which holds tables

  /// A place in the array; a flag has one for all of it.
  origin of(const toml::source_region& region) const {
    if (at.kind != source_kind::file) return at;
    return {source_kind::file, file, region.begin.line, region.begin.column};
  }
};

/// Stores a key of a table in what it is read into, or notes why it cannot be.
template <class Spec>
void read_field(builder& into, const array_place& where, const toml::key& key,
                const toml::node& field, Spec& spec) {
  const auto name = where.section.empty() ? std::string(key.str())
                                          : fmt::format("{}.{}", where.section, key.str());
  const auto p = std::find_if(where.rows.begin(), where.rows.end(),
                              [&](const property& row) { return row.key == name; });
  const auto v = to_value(field);
  if (p == where.rows.end()) {
    std::vector<std::string_view> names;
    for (const auto& row : where.rows) names.push_back(row.key);
    if (!where.tables.empty()) names.push_back(where.tables);
    const auto near = nearest(name, names);
    into.complain(where.of(key.source()), name, "unknown key",
                  near.empty() ? "" : fmt::format("did you mean {}?", near));
  } else if (!v) {
    into.complain(where.of(field.source()), name,
                  fmt::format("expected {}, got {}", accepts(*p), type_name(field)));
  } else if (const auto done = set(*p, spec, *v); !done) {
    into.complain(where.of(field.source()), name, done.error().message, done.error().hint);
  }
}

/// The tables, each with its place; nothing where it is no array of tables.
template <class Entry>
std::optional<std::vector<Entry>> read_array(builder& into, const toml::node& node,
                                             const array_place& where) {
  const auto* list = node.as_array();
  bool tables = list != nullptr;
  for (size_t i = 0; tables && i < list->size(); i++) tables = list->get(i)->is_table();
  if (!tables) {
    into.complain(where.at, where.section,
                  fmt::format("expected [[{}]] tables, got {}", where.section, type_name(node)));
    return std::nullopt;
  }
  std::vector<Entry> out;
  for (const auto& item : *list) {
    Entry entry{};
    entry.at = where.of(item.source());
    for (auto&& [key, field] : *item.as_table()) read_field(into, where, key, field, entry.spec);
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace troupe::config::detail
