// Reads the arrays of tables: [[cluster.node]], [[data.source]], [[recovery.rule]],
// [[health.log_rule]] and [[inject]].
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "io/config/builder.hpp"
#include "io/config/toml_tables.hpp"
#include "io/config/toml_value.hpp"

namespace troupe::config::detail {

void read_nodes(builder& into, const toml::node& node, const origin& at, const std::string& file) {
  if (auto nodes =
          read_array<node_entry>(into, node, {"cluster.node", node_properties(), at, file}))
    into.assign_nodes(std::move(*nodes), at);
}

void read_rules(builder& into, const toml::node& node, const origin& at, const std::string& file) {
  auto rules = read_array<rule_entry>(into, node, {"recovery.rule", rule_properties(), at, file});
  if (!rules) return;
  for (size_t i = 0; i < rules->size(); ++i)
    if (!node.as_array()->get(i)->as_table()->contains("finding"))
      into.complain((*rules)[i].at, "recovery.rule.finding",
                    "every [[recovery.rule]] needs a finding", "docs/healing.md lists them");
  into.assign_rules(std::move(*rules));
}

void read_log_rules(builder& into, const toml::node& node, const origin& at,
                    const std::string& file) {
  const array_place where{"health.log_rule", log_rule_properties(), at, file};
  auto rules = read_array<log_rule_entry>(into, node, where);
  if (!rules) return;
  for (size_t i = 0; i < rules->size(); ++i) {
    auto& rule = (*rules)[i];
    const auto& table = *node.as_array()->get(i)->as_table();
    const auto* match = table.get("match");
    rule.match_at = match == nullptr ? rule.at : where.of(match->source());
    for (const auto* key : {"name", "match"})
      if (!table.contains(key))
        into.complain(rule.at, fmt::format("health.log_rule.{}", key),
                      fmt::format("every [[health.log_rule]] needs a {}", key),
                      "docs/health.md has examples");
  }
  into.assign_log_rules(std::move(*rules));
}

void read_sources(builder& into, const toml::node& node, const origin& at,
                  const std::string& file) {
  auto sources =
      read_array<source_entry>(into, node, {"data.source", source_properties(), at, file});
  if (sources) into.assign_sources(std::move(*sources), at);
}

void read_drills(builder& into, const toml::node& node, const origin& at,
                 const std::string& file) {
  const array_place where{"inject", drill_properties(), at, file};
  auto drills = read_array<drill_entry>(into, node, where);
  if (!drills) return;
  for (size_t i = 0; i < drills->size(); ++i) {
    auto& drill = (*drills)[i];
    const auto& table = *node.as_array()->get(i)->as_table();
    const auto place_of = [&](std::string_view key) {
      const auto* field = table.get(key);
      return field == nullptr ? drill.at : where.of(field->source());
    };
    drill.who_at = place_of("who");
    drill.factor_at = place_of("factor");
    for (const auto* key : {"who", "what"})
      if (!table.contains(key))
        into.complain(drill.at, fmt::format("inject.{}", key),
                      fmt::format("every [[inject]] needs a {}", key),
                      "docs/healing.md has examples");
  }
  into.assign_drills(std::move(*drills), at);
}

const table_array* find_table_array(std::string_view key) {
  static constexpr table_array all[] = {
      {"cluster.node", read_nodes, R"([{name = "a", host = "b"}])"},
      {"data.source", read_sources, R"([{path = "web/", weight = 3}, {path = "code/"}])"},
      {"recovery.rule", read_rules, R"([{finding = "dead_process", do = "hold"}])"},
      {"health.log_rule", read_log_rules, R"([{name = "fans", match = "fan [0-9]+ failed"}])"},
      {"inject", read_drills, R"([{who = "rank 1", what = "hang", from_step = 30}])"}};
  for (const auto& a : all)
    if (a.key == key) return &a;
  return nullptr;
}

}  // namespace troupe::config::detail
