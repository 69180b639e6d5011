// The record as text, and when it is written.
#include "actors/power/budget_record.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/power/budget_journal.hpp"
#include "actors/power/lease_policy.hpp"
#include "io/config/power_tree.hpp"

namespace troupe::power {

namespace {

using nlohmann::ordered_json;

/// None: it is no power.
std::optional<int64_t> milliwatts_in(const ordered_json& watts) {
  if (!watts.is_number()) return std::nullopt;
  const auto w = watts.get<double>();
  if (!(w >= 0 && w <= watts_of(beyond_mw))) return std::nullopt;
  return config::milliwatts(w);
}

std::optional<int64_t> milliwatts_at(const ordered_json& in, const char* key) {
  const auto it = in.find(key);
  return it == in.end() ? std::nullopt : milliwatts_in(*it);
}

/// Whether all that an object has are these.
bool has_only(const ordered_json& object, std::initializer_list<std::string_view> keys) {
  return object.is_object() &&
         std::all_of(object.items().begin(), object.items().end(), [&](const auto& item) {
           return std::find(keys.begin(), keys.end(), item.key()) != keys.end();
         });
}

std::optional<budget_set> set_in(const ordered_json& j) {
  if (!has_only(j, {"budget_w", "instead_of_w", "by", "time"})) return std::nullopt;
  const auto budget_mw = milliwatts_at(j, "budget_w");
  const auto instead_of_mw = milliwatts_at(j, "instead_of_w");
  if (!budget_mw || !instead_of_mw) return std::nullopt;
  budget_set out{*budget_mw, *instead_of_mw};
  for (auto [key, to] : {std::pair{"by", &out.by}, {"time", &out.time}}) {
    const auto it = j.find(key);
    if (it == j.end()) continue;
    if (!it->is_string()) return std::nullopt;
    *to = it->get<std::string>();
  }
  return out;
}

std::optional<budget_record> record_in(const ordered_json& j) {
  if (!has_only(j, {"epoch", "children", "set", "brake", "pulled"}) || !j.contains("epoch") ||
      !j["epoch"].is_number_unsigned() || j["epoch"].get<uint64_t>() > beyond_lives ||
      !j.contains("children") || !j["children"].is_object())
    return std::nullopt;
  budget_record out;
  out.epoch = j["epoch"].get<uint64_t>();
  for (const auto& [name, watts] : j["children"].items()) {
    const auto mw = milliwatts_in(watts);
    if (!mw) return std::nullopt;
    out.children_mw[name] = *mw;
  }
  for (auto [key, to] : {std::pair("brake", &out.brake), {"pulled", &out.pulled}}) {
    const auto it = j.find(key);
    if (it == j.end()) continue;
    if (!it->is_boolean()) return std::nullopt;
    *to = it->get<bool>();
  }
  if (!j.contains("set")) return out;
  out.set = set_in(j["set"]);
  return out.set ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

std::string record_text(const budget_record& record) {
  ordered_json children = ordered_json::object();
  for (const auto& [name, mw] : record.children_mw) children[name] = watts_of(mw);
  ordered_json out{{"epoch", record.epoch}, {"children", std::move(children)}};
  if (const auto& set = record.set) {
    out["set"] = {{"budget_w", watts_of(set->budget_mw)},
                  {"instead_of_w", watts_of(set->instead_of_mw)}};
    if (!set->by.empty()) out["set"]["by"] = set->by;
    if (!set->time.empty()) out["set"]["time"] = set->time;
  }
  if (record.brake) out["brake"] = true;
  if (record.pulled) out["pulled"] = true;
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

result<budget_record> parse_budget_record(std::string_view text) {
  auto record = record_in(ordered_json::parse(text, nullptr, false));
  if (record) return std::move(*record);
  return error(errc::bad_data, "it is no record of a power budget",
               "expected {\"epoch\": N, \"children\": {NAME: WATTS, ...}}, and \"set\" with "
               "\"budget_w\" and \"instead_of_w\" where a person has set the budget, and "
               "\"brake\": true where one holds all work, \"pulled\" where the budget does");
}

record_policy::record_policy(std::vector<int64_t> static_mw, std::vector<int64_t> found_mw,
                             int64_t rest_ns)
    : static_mw_(std::move(static_mw)),
      written_mw_(std::move(found_mw)),
      least_mw_(written_mw_),
      covered_mw_(static_mw_.size()),
      rest_ns_(rest_ns) {
  cover();
}

/// BUR-1
void record_policy::cover() {
  for (size_t i = 0; i < covered_mw_.size(); ++i)
    covered_mw_[i] = std::max(static_mw_[i], least_mw_[i]);
}

std::optional<uint64_t> record_policy::begin(const std::vector<int64_t>& watts_mw, bool waits,
                                             int64_t now_ns) {
  if (under_way_) return std::nullopt;  // BUR-2
  const bool differs = failed_ || watts_mw != written_mw_;
  const bool rested = !begun_ns_ || now_ns - *begun_ns_ >= rest_ns_;
  if (!waits && !(differs && rested)) return std::nullopt;
  under_way_ = true;
  begun_ns_ = now_ns;
  writing_mw_ = watts_mw;
  for (size_t i = 0; i < least_mw_.size(); ++i)
    least_mw_[i] = std::min(least_mw_[i], writing_mw_[i]);
  cover();
  return ++number_;
}

void record_policy::ended(uint64_t number, const std::optional<error>& why) {
  if (!under_way_ || number != number_) return;
  under_way_ = false;
  failed_ = why;
  failures_ = failed_ ? std::min(failures_ + 1, tries_at_once) : 0;
  if (failed_) return;
  least_mw_ = written_mw_ = writing_mw_;
  cover();
}

std::optional<error> record_policy::trouble(int64_t now_ns) const {
  if (failed_) return failed_;
  if (!under_way_ || now_ns - *begun_ns_ < rest_ns_) return std::nullopt;
  return error(errc::timeout,
               fmt::format("a write has taken {} s so far", (now_ns - *begun_ns_) / 1'000'000'000),
               "the disk hangs, or is busy");
}

}  // namespace troupe::power
