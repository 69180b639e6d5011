// Writes what the property table and a job hold; see show.hpp for the forms.
#include "io/config/show.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/base/text.hpp"
#include "io/config/properties.hpp"

namespace troupe::config {

using nlohmann::ordered_json;

namespace {

std::string_view leaf_of(std::string_view key) {
  return key.substr(key.rfind('.') + 1);
}

/// Whether a key lies directly in a section.
bool is_in(std::string_view key, std::string_view section) {
  return key.size() > section.size() && key[section.size()] == '.' && key.starts_with(section) &&
         key.find('.', section.size() + 1) == key.npos;
}

/// Whether a section is an array of tables.
bool is_list(std::string_view section) {
  return section == "cluster.node" || section == "data.source" || section == "recovery.rule" ||
         section == "health.log_rule" || section == "inject";
}

std::span<const property> rows_of(std::string_view section) {
  if (section == "data.source") return source_properties();
  if (section == "recovery.rule") return rule_properties();
  if (section == "health.log_rule") return log_rule_properties();
  if (section == "inject") return drill_properties();
  return is_list(section) ? node_properties() : properties();
}

/// Calls f(property) for each key directly in a section.
template <class F>
void for_each_in(std::string_view section, F f) {
  for (const auto& p : rows_of(section))
    if (is_in(p.key, section)) f(p);
}

template <class Item>
void write_items(std::string& out, std::string_view section, const std::vector<Item>& items,
                 const std::string& comment = {}) {
  for (const auto& item : items) {
    out += fmt::format("\n[[{}]]{}\n", section, comment);
    for (const auto& p : rows_of(section))
      out += fmt::format("{} = {}\n", leaf_of(p.key), to_toml_text(get(p, item)));
  }
}

/// All sections; `origins` may be null for text without comments.
std::string write(const job& j, const loaded* origins) {
  std::string out;
  auto comment = [&](std::string_view key) {
    return origins ? "  # " + to_string(origins->origins.find(key)->second) : std::string();
  };
  for (auto section : sections()) {
    if (section == "cluster.node")
      write_items(out, section, j.cluster.node, comment("cluster.nodes"));
    else if (section == "data.source")
      write_items(out, section, j.data.source);
    else if (section == "recovery.rule")
      write_items(out, section, j.recovery.rule);
    else if (section == "health.log_rule")
      write_items(out, section, j.health.log_rule);
    else if (section == "inject")
      write_items(out, section, j.inject);
    if (is_list(section)) continue;
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    for_each_in(section, [&](const property& p) {
      auto line = fmt::format("{} = {}", leaf_of(p.key), to_toml_text(get(p, j)));
      out += origins ? fmt::format("{:<38}{}\n", line, comment(p.key)) : line + "\n";
    });
  }
  return out;
}

ordered_json as_json(const value& v) {
  return std::visit([](const auto& x) { return ordered_json(x); }, v);
}

/// The default of a key, from a default-made job.
value default_of(const property& p) {
  if (p.key.starts_with("data.source.")) return get(p, source_spec{});
  if (p.key.starts_with("recovery.rule.")) return get(p, recovery_rule{});
  if (p.key.starts_with("health.log_rule.")) return get(p, log_rule_spec{});
  if (p.key.starts_with("inject.")) return get(p, drill_spec{});
  return p.key.starts_with("cluster.node.") ? get(p, node_spec{}) : get(p, job{});
}

ordered_json schema_of(const property& p) {
  ordered_json s;
  s["description"] = fmt::format("{}.", p.about);
  switch (p.kind) {
    case value_kind::integer:
      s["type"] = "integer";
      break;
    case value_kind::real:
      s["type"] = "number";
      break;
    case value_kind::boolean:
      s["type"] = "boolean";
      break;
    case value_kind::text:
      s["type"] = "string";
      break;
    case value_kind::texts:
      s["type"] = {"string", "array"};
      s["items"] = {{"type", "string"}};
      break;
    case value_kind::choice:
      s["enum"] = words_taken(p);
      break;
  }
  if (p.limits.min) s[p.limits.above_min ? "exclusiveMinimum" : "minimum"] = *p.limits.min;
  if (p.limits.max) s[p.limits.below_max ? "exclusiveMaximum" : "maximum"] = *p.limits.max;
  s["default"] = as_json(default_of(p));
  return s;
}

ordered_json section_schema(std::string_view section) {
  ordered_json s;
  s["type"] = "object";
  s["description"] = fmt::format("{}.", section_about(section));
  s["additionalProperties"] = false;
  for_each_in(section, [&](const property& p) {
    s["properties"][std::string(leaf_of(p.key))] = schema_of(p);
  });
  return s;
}

std::string explain_key(const property& p) {
  bool of_list = is_list(p.key.substr(0, p.key.rfind('.')));
  auto text = fmt::format("{}\n  {}.\n  value:       {}\n  default:     {}\n", p.key, p.about,
                          accepts(p), to_toml_text(default_of(p)));
  if (of_list) return text;
  return text + fmt::format("  environment: {}\n  flag:        --set {}=...\n",
                            environment_name(p.key), p.key);
}

std::string explain_section(std::string_view section) {
  auto text = fmt::format("[{}]\n  {}.\n\n", section, section_about(section));
  size_t width = 0;
  for_each_in(section, [&](const property& p) { width = std::max(width, p.key.size()); });
  for_each_in(section, [&](const property& p) {
    text += fmt::format("  {:<{}}  {}\n", p.key, width, p.about);
  });
  return text;
}

/// A cell of a Markdown table.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2) text.insert(at, "\\");
  return text;
}

constexpr auto reference_head = R"(# The configuration, key by key

One TOML file describes a job. This page is made from the program's own list of keys
(`troupe config schema --markdown`); `troupe config explain KEY` shows one of them in a terminal.

Values are layered: a default, then included files (`include = ["base.toml"]` at the top of the
file, relative to it, later ones win, at most 8 deep), then the file itself, then the environment
(`TROUPE_TRAIN__LR=1e-3` sets `train.lr`), then `--set train.lr=1e-3`. `troupe config show FILE`
prints what came out and where each value came from; `troupe config check FILE` says everything that
is wrong with it, and what would keep the job from starting on this machine: memory, GPUs, threads,
addresses, certificates, folders, model, data, checkpoint (`--no-files` leaves those out). `troupe
up` runs the same checks before it writes or allocates anything.

A relative path, except of `include`, begins in the working directory of the process that opens it.
Nodes that Troupe starts, on this machine or by ssh, work in the folder where `troupe up` was
started, which each of these hosts must have; a node that somebody else starts, where he does so.
)";

template <class Item>
ordered_json items_json(std::string_view section, const std::vector<Item>& items) {
  auto out = ordered_json::array();
  for (const auto& item : items) {
    ordered_json one;
    for (const auto& row : rows_of(section))
      one[std::string(leaf_of(row.key))] = as_json(get(row, item));
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

std::string to_toml(const job& j) {
  return write(j, nullptr);
}

std::string show(const loaded& config) {
  return write(config.value, &config);
}

/// The arrays of tables that have no line among the keys.
void for_lists(const job& j, const std::function<void(const char*, ordered_json)>& each) {
  each("data.source", items_json("data.source", j.data.source));
  each("recovery.rule", items_json("recovery.rule", j.recovery.rule));
  each("health.log_rule", items_json("health.log_rule", j.health.log_rule));
  each("inject", items_json("inject", j.inject));
}

std::string show_json(const loaded& config) {
  ordered_json out;
  auto add = [&](const std::string& key, ordered_json v, std::string_view origin_key) {
    const auto& from = config.origins.find(origin_key)->second;
    out[key] = {{"value", std::move(v)}, {"origin", to_string(from)}};
  };
  for (const auto& p : properties()) {
    add(std::string(p.key), as_json(get(p, config.value)), p.key);
    if (p.key == "cluster.nodes")
      add("cluster.node", items_json("cluster.node", config.value.cluster.node), p.key);
  }
  for_lists(config.value, [&](const char* key, ordered_json all) {
    out[key] = {{"value", std::move(all)}};
  });
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string values_json(const job& j) {
  ordered_json out;
  for (const auto& p : properties()) out[std::string(p.key)] = as_json(get(p, j));
  out["cluster.node"] = items_json("cluster.node", j.cluster.node);
  for_lists(j, [&](const char* key, ordered_json all) { out[key] = std::move(all); });
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

result<std::string> explain(std::string_view name) {
  if (!section_about(name).empty()) return explain_section(name);
  for (auto rows : {properties(), node_properties(), source_properties(), rule_properties(),
                    log_rule_properties(), drill_properties()})
    for (const auto& p : rows)
      if (p.key == name) return explain_key(p);
  std::string near;
  for (const auto& p : properties())  // a key's own name, before sections of a like one
    if (near.empty() && leaf_of(p.key) == name) near = p.key;
  if (near.empty())
    near = name.find('.') == name.npos ? nearest(name, sections()) : nearest_key(name);
  if (near.empty()) near = nearest_key(name);
  return error{
      errc::not_found, fmt::format("key or section not found: {}", quoted(name)),
      near.empty() ? "`troupe config explain` lists them" : fmt::format("did you mean {}?", near)};
}

std::string reference_markdown() {
  std::string out = reference_head;
  for (auto section : sections()) {
    bool list = is_list(section);
    out += fmt::format("\n## {}{}{}\n\n{}.\n\n", list ? "[[" : "[", section, list ? "]]" : "]",
                       section_about(section));
    out += "| key | value | default | |\n|---|---|---|---|\n";
    for_each_in(section, [&](const property& p) {
      out += fmt::format("| `{}` | {} | `{}` | {} |\n", leaf_of(p.key), cell(accepts(p)),
                         to_toml_text(default_of(p)), cell(std::string(p.about)));
    });
  }
  return out;
}

std::string json_schema() {
  ordered_json root;
  root["$schema"] = "http://json-schema.org/draft-07/schema#";
  root["title"] = "Troupe job";
  root["type"] = "object";
  root["additionalProperties"] = false;
  root["properties"]["include"] = {{"description", "Files laid under this one, relative to it."},
                                   {"type", {"string", "array"}},
                                   {"items", {{"type", "string"}}}};
  for (auto section : sections()) {
    auto schema = section_schema(section);
    auto dot = section.find('.');
    if (is_list(section)) schema = {{"type", "array"}, {"items", std::move(schema)}};
    auto& parent = dot == section.npos
                       ? root["properties"]
                       : root["properties"][std::string(section.substr(0, dot))]["properties"];
    parent[std::string(leaf_of(section))] = std::move(schema);
  }
  return root.dump(2) + "\n";
}

ordered_json problems_json(const std::vector<problem>& problems) {
  auto out = ordered_json::array();
  for (const auto& p : problems) {
    ordered_json item;
    item[p.at.kind == source_kind::file ? "file" : "source"] = p.at.name;
    if (p.at.line > 0) {
      item["line"] = p.at.line;
      item["column"] = p.at.column;
    }
    item["key"] = p.key;
    item["problem"] = p.what;
    if (!p.hint.empty()) item["hint"] = p.hint;
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace troupe::config
