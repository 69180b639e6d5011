// Keys and values, line by line.
#include "actors/heads/same_job.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/config/properties.hpp"
#include "io/file.hpp"

namespace troupe::heads {

namespace {

/// Differences that an error names; more are counted.
constexpr size_t named_differences = 8;

/// Whether all heads must have it alike.
bool counts(std::string_view key) {
  constexpr std::array own{"cluster.listen",      "cluster.port",      "cluster.advertise",
                           "cluster.ssh_command", "checkpoint.resume", "data.cache"};
  return !key.starts_with("log.") && !key.starts_with("cluster.tls.") &&
         std::find(own.begin(), own.end(), key) == own.end();
}

template <class Item>
void add(std::vector<std::string>& lines, std::span<const config::property> keys,
         const std::vector<Item>& items) {
  for (size_t i = 0; i < items.size(); ++i)
    for (const auto& p : keys)
      lines.push_back(fmt::format("{} [{}] = {}", p.key, i + 1,
                                  config::to_toml_text(config::get(p, items[i]))));
}

using settings = std::map<std::string, std::string>;

settings by_key(const std::vector<std::string>& lines) {
  constexpr std::string_view between = " = ";
  settings out;
  for (const auto& line : lines) {
    const auto end = std::min(line.find(between), line.size());
    out[line.substr(0, end)] = line.substr(std::min(end + between.size(), line.size()));
  }
  return out;
}

std::string in(const settings& all, const std::string& key) {
  const auto it = all.find(key);
  return it == all.end() ? "not there" : it->second;
}

}  // namespace

shared_settings::shared_settings(const config::job& job) {
  for (const auto& p : config::properties())
    if (counts(p.key))
      lines_.push_back(fmt::format("{} = {}", p.key, config::value_text(p.key, job)));
  add(lines_, config::node_properties(), job.cluster.node);
  add(lines_, config::source_properties(), job.data.source);
  add(lines_, config::rule_properties(), job.recovery.rule);
  add(lines_, config::log_rule_properties(), job.health.log_rule);
  add(lines_, config::drill_properties(), job.inject);
  std::sort(lines_.begin(), lines_.end());
  const auto text = fmt::format("{}", fmt::join(lines_, "\n"));
  digest_ = std::max(uint32_t{1}, io::crc32c(std::as_bytes(std::span(text))));
}

error shared_settings::differ_from(std::vector<std::string> those,
                                   std::string_view address) const {
  const auto here = by_key(lines_), there = by_key(those);
  std::set<std::string> keys;
  for (const auto* side : {&here, &there})
    for (const auto& [key, value] : *side)
      if (in(here, key) != in(there, key)) keys.insert(key);
  if (those.empty() || keys.empty())
    return another_configuration(address, "it does not say which settings differ");
  std::vector<std::string> named;
  for (const auto& key : keys)
    if (named.size() < named_differences)
      named.push_back(
          fmt::format("{} is {} there and {} here", key, in(there, key), in(here, key)));
  auto text = fmt::format("{}", fmt::join(named, ", "));
  if (keys.size() > named.size()) text += fmt::format(", and {} more", keys.size() - named.size());
  return another_configuration(address, text);
}

}  // namespace troupe::heads
