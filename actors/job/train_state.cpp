// JSON there and back.
#include "actors/job/train_state.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace troupe::checkpoint {

namespace {

constexpr int state_version = 1;
/// Settings a file may list, at most: far more than can be set.
constexpr size_t set_limit = 256;

error wrong(std::string_view what) {
  return {errc::bad_data, fmt::format("train_state.json: {}", what)};
}

result<std::vector<setting_change>> parse_set(const nlohmann::json& list) {
  std::vector<setting_change> out;
  if (!list.is_array() || list.size() > set_limit)
    return wrong("invalid `set`: expected a list of settings");
  for (const auto& item : list) {
    for (const char* key : {"key", "value", "was"})
      if (!item.is_object() || !item.contains(key) || !item[key].is_string())
        return wrong(fmt::format("a setting has no {}", key));
    if (!item.contains("step") || !item["step"].is_number_unsigned())
      return wrong("a setting has no step");
    out.push_back({item["key"], item["value"], item["was"], item["step"]});
  }
  return out;
}

result<std::vector<skipped_tokens>> parse_skipped(const nlohmann::json& list) {
  std::vector<skipped_tokens> out;
  if (!list.is_array() || list.size() > skipped_limit)
    return wrong("invalid `skipped`: expected a list of parts of the data");
  for (const auto& item : list) {
    for (const char* key : {"first", "count"})
      if (!item.is_object() || !item.contains(key) || !item[key].is_number_unsigned())
        return wrong(fmt::format("a skipped part has no {}", key));
    out.push_back({item["first"], item["count"]});
  }
  return out;
}

}  // namespace

std::string format_state(const train_state& state) {
  nlohmann::json set = nlohmann::json::array();
  for (const auto& s : state.set)
    set.push_back({{"key", s.key}, {"value", s.value}, {"was", s.was}, {"step", s.step}});
  nlohmann::json skipped = nlohmann::json::array();
  for (const auto& s : state.skipped)
    skipped.push_back({{"first", s.first}, {"count", s.count}});
  nlohmann::json out{{"format", state_version},     {"step", state.step},
                     {"tokens", state.tokens},      {"loss", state.loss},
                     {"config", state.config_toml}, {"set", std::move(set)},
                     {"skipped", std::move(skipped)}};
  if (state.replicas_configured > 0) out["replicas_configured"] = state.replicas_configured;
  if (state.validation_loss) out["validation_loss"] = *state.validation_loss;
  return out.dump(1);
}

result<train_state> parse_state(std::string_view text) {
  const auto j = nlohmann::json::parse(text, nullptr, false);
  if (!j.is_object()) return wrong("not a JSON object");
  auto number = [&](const char* key) { return j.contains(key) && j[key].is_number_unsigned(); };
  if (!number("format") || j["format"] != state_version)
    return error{errc::version_mismatch, "train_state.json: another format",
                 "it was written by another version of Troupe"};
  if (!number("step") || !number("tokens")) return wrong("step or tokens is missing");
  if (!j.contains("config") || !j["config"].is_string()) return wrong("config is missing");
  train_state state;
  state.step = j["step"];
  state.tokens = j["tokens"];
  if (j.contains("loss") && j["loss"].is_number()) state.loss = j["loss"];
  if (j.contains("validation_loss") && j["validation_loss"].is_number())
    state.validation_loss = j["validation_loss"];
  state.config_toml = j["config"];
  if (j.contains("set")) {
    TROUPE_TRY(set, parse_set(j["set"]));
    state.set = std::move(set);
  }
  if (j.contains("skipped")) {
    TROUPE_TRY(skipped, parse_skipped(j["skipped"]));
    state.skipped = std::move(skipped);
  }
  if (j.contains("replicas_configured")) {
    const auto& all = j["replicas_configured"];
    if (!all.is_number_unsigned() || all.get<uint64_t>() > INT32_MAX)
      return wrong("invalid `replicas_configured`: expected a number of replicas");
    state.replicas_configured = all;
  }
  return state;
}

}  // namespace troupe::checkpoint
