// The grammar of a record, and what follows from one.
#include "gpu/controls/control_record.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace troupe::gpu::controls {

namespace {

constexpr int grammar = 1;

/// CRE-1
bool is_group_of_ours(const std::string& text) {
  const std::filesystem::path group(text);
  return group.is_absolute() && group == group.lexically_normal() &&
         group.filename().string().starts_with(group_prefix) && text.find('\0') == text.npos &&
         text.find('\n') == text.npos;
}

bool are_texts(const nlohmann::json& j, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (!j.contains(key) || !j[key].is_string()) return false;
  return true;
}

/// From 0 on.
bool are_numbers(const nlohmann::json& j, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (!j.contains(key) || !j[key].is_number_unsigned()) return false;
  return true;
}

/// What was made. Error: why it is no such record.
std::optional<std::string_view> read_group(const nlohmann::json& j, control_record& r) {
  if (!are_texts(j, {"group"}) || !are_numbers(j, {"cgroup"}) || !j.contains("turned_on") ||
      !j["turned_on"].is_boolean())
    return "it is not whole";
  const auto version = j["cgroup"].get<uint64_t>();
  if (version != 1 && version != 2) return "no such version of control groups";
  r.version = static_cast<cgroup_version>(version);
  r.group = j["group"].get<std::string>();
  if (!is_group_of_ours(r.group)) return "the group is none of this program's";
  r.turned_on = j["turned_on"].get<bool>();
  return std::nullopt;
}

/// The same of what was set.
std::optional<std::string_view> read_settings(const nlohmann::json& j, control_record& r) {
  if (!are_texts(j, {"kind"}) || !j["settings"].is_array() || j["settings"].empty())
    return "it is not whole";
  const auto kind = setting_kind_named(j["kind"].get<std::string>());
  if (!kind) return "no such kind of setting";
  r.kind = *kind;
  if (j.contains("stays_at")) {  // CRE-3
    if (!are_numbers(j, {"stays_at"}) || j["stays_at"].get<uint64_t>() > whole_pace)
      return "it stays at no pace";
    r.stays_at = j["stays_at"].get<int>();
  }
  for (const auto& s : j["settings"]) {
    if (!s.is_object() || !are_texts(s, {"where"}) || !are_numbers(s, {"found"}))
      return "it is not whole";
    r.settings.push_back({s["where"].get<std::string>(), s["found"].get<uint64_t>()});
    if (!names_setting(r.kind, r.settings.back().where))
      return "a setting is none that this program changes";
  }
  return std::nullopt;
}

}  // namespace

std::string record_text(const control_record& r) {
  nlohmann::ordered_json j;
  j["troupe-control"] = grammar;
  if (r.settings.empty()) {
    j["cgroup"] = static_cast<int>(r.version);
    j["group"] = r.group;
    j["turned_on"] = r.turned_on;
  } else {
    j["kind"] = to_string(r.kind);
    for (const auto& s : r.settings)
      j["settings"].push_back({{"where", s.where}, {"found", s.found}});
    if (r.stays_at) j["stays_at"] = *r.stays_at;
  }
  j["job"] = r.job;
  j["rank"] = r.rank;
  j["pid"] = r.pid;
  j["started"] = r.started;
  j["boot"] = r.boot;
  if (!r.number_space.empty()) j["number_space"] = r.number_space;
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

result<control_record> parse_record(std::string_view text) {
  if (text.size() > record_bytes) return no_control_record("it is too long");
  const auto j = nlohmann::json::parse(text, nullptr, false);
  if (!j.is_object() || !j.contains("troupe-control")) return no_control_record("it is none");
  if (j["troupe-control"] != grammar)
    return no_control_record("it is of another version of this program");
  if (!are_texts(j, {"job", "boot"}) || !are_numbers(j, {"rank", "pid", "started"}))
    return no_control_record("it is not whole");
  if (j.contains("number_space") && !are_texts(j, {"number_space"}))
    return no_control_record("it is not whole");
  control_record r;
  const auto fault = j.contains("settings") ? read_settings(j, r) : read_group(j, r);
  if (fault) return no_control_record(*fault);
  r.job = j["job"].get<std::string>();
  r.rank = j["rank"].get<int64_t>();
  r.pid = j["pid"].get<int64_t>();
  r.started = j["started"].get<uint64_t>();
  r.boot = j["boot"].get<std::string>();
  r.number_space = j.value("number_space", std::string());
  if (r.pid <= 0 || r.rank < 0) return no_control_record("it is of no process");
  return r;
}

setting_target target_of(const control_record& r) {
  const bool of_gpu = is_of_gpu(r.kind) && !r.settings.empty();
  return {r.kind, of_gpu ? r.settings.front().where : std::string()};
}

std::string device_of(const setting_target& target) {
  return is_of_gpu(target.kind) ? target.gpu : std::string(to_string(target.kind));
}

std::string subject_of(const control_record& r) {
  if (r.settings.empty()) return r.group;
  const auto first = fmt::format("{} {}", to_string(r.kind), r.settings.front().where);
  const auto others = r.settings.size() - 1;
  return others > 0 ? fmt::format("{} and {} more", first, others) : first;
}

std::optional<uint64_t> start_ticks(std::string_view stat) {
  constexpr int starttime_at = 20;  // words behind the name, which may have any bytes in it
  const auto name_end = stat.rfind(')');
  if (name_end == stat.npos) return std::nullopt;
  stat.remove_prefix(name_end + 1);
  for (int at = 1;; ++at) {
    stat.remove_prefix(std::min(stat.find_first_not_of(' '), stat.size()));
    const auto word = stat.substr(0, stat.find(' '));
    if (word.empty()) return std::nullopt;
    stat.remove_prefix(word.size());
    if (at < starttime_at) continue;
    uint64_t out = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), out);
    return code == std::errc{} && end == word.data() + word.size() ? std::optional(out)
                                                                   : std::nullopt;
  }
}

std::string_view to_string(record_verdict verdict) {
  switch (verdict) {
    case record_verdict::in_use:
      return "in use";
    case record_verdict::undo:
      return "undo";
    case record_verdict::forget:
      return "forget";
  }
  return "";
}

record_verdict judge(const control_record& r, std::string_view boot,
                     std::optional<uint64_t> started) {
  if (r.boot != boot) return record_verdict::forget;
  return started == r.started ? record_verdict::in_use : record_verdict::undo;
}

}  // namespace troupe::gpu::controls
