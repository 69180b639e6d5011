// Reads the environment and --set: one key each, whose value is TOML if it can be, and else the
// text itself, so that --set train.optimizer=lamb needs no quotes in quotes.
#include <algorithm>

#include <fmt/format.h>

#include "io/base/text.hpp"
#include "io/config/toml_value.hpp"

namespace troupe::config::detail {

namespace {

/// The one value in `text`, or nothing if that is not exactly one TOML value.
std::optional<toml::table> one_value(std::string_view text) {
  try {
    auto table = toml::parse("v = " + std::string(text), std::string_view{});
    if (table.size() == 1) return table;
  } catch (const std::exception&) {
    // Not TOML: the caller takes the text as a string.
  }
  return std::nullopt;
}

/// What `text` means for a key; nothing if it is not valid UTF-8.
std::optional<value> value_of(const property& p, std::string_view text) {
  bool wants_text =
      p.kind == value_kind::text || p.kind == value_kind::choice || p.kind == value_kind::texts;
  bool written_as_toml = !text.empty() && std::string_view("\"'[").find(text[0]) != text.npos;
  if (!wants_text || written_as_toml)
    if (auto table = one_value(text))
      if (auto v = to_value(*table->get("v"))) return v;
  if (!one_value(quoted(text))) return std::nullopt;
  return std::string(text);
}

void read_one(builder& into, std::string_view key, std::string_view text, const origin& at) {
  if (const auto* p = find_property(key)) {
    if (auto v = value_of(*p, text))
      into.assign(*p, *v, at, at);
    else
      into.complain(at, key, "the text is not valid UTF-8");
    return;
  }
  if (const auto* tables = find_table_array(key)) {
    if (auto table = one_value(text))
      tables->read(into, *table->get("v"), at, "");
    else
      into.complain(at, key, fmt::format("expected an array of tables, e.g. {}", tables->example));
    return;
  }
  if (section_about(key).empty())
    into.unknown_key(at, key);
  else
    into.complain(at, key, "is a section; name one of its keys");
}

}  // namespace

std::string type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::date:
      return "a date";
    case toml::node_type::time:
      return "a time";
    case toml::node_type::date_time:
      return "a date and time";
    case toml::node_type::none:
      break;
  }
  return "nothing";
}

std::optional<value> to_value(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  const auto* array = node.as_array();
  if (!array) return std::nullopt;
  std::vector<std::string> items;
  for (const auto& item : *array) {
    const auto* text = item.as_string();
    if (!text) return std::nullopt;
    items.push_back(text->get());
  }
  return items;
}

void read_environment(builder& into, const std::vector<std::string>& variables) {
  constexpr std::string_view prefix = "TROUPE_";
  auto sorted =
      variables;  // the order of an environment means nothing; problems come in a stable one
  std::sort(sorted.begin(), sorted.end());
  for (std::string_view entry : sorted) {
    auto equals = entry.find('=');
    if (!entry.starts_with(prefix) || equals == entry.npos) continue;
    auto name = entry.substr(0, equals);
    auto words = name.substr(prefix.size());
    if (words.find("__") == words.npos) continue;  // TROUPE_HOME and the like are not keys
    std::string key;
    for (size_t i = 0; i < words.size(); i++) {
      char c = words[i];
      bool dot = c == '_' && i + 1 < words.size() && words[i + 1] == '_';
      key += dot ? '.' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      i += dot;
    }
    read_one(into, key, entry.substr(equals + 1), {source_kind::environment, std::string(name)});
  }
}

void read_flag(builder& into, std::string_view flag) {
  auto equals = flag.find('=');
  if (equals == flag.npos) {
    into.complain({source_kind::flag, "--set"}, "", fmt::format("expected KEY=VALUE, got {}", flag),
                  "e.g. --set train.lr=1e-3", errc::usage);
    return;
  }
  auto key = flag.substr(0, equals);
  read_one(into, key, flag.substr(equals + 1), {source_kind::flag, "--set"});
}

}  // namespace troupe::config::detail
