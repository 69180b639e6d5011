// Columns of a tree, and its JSON.
#include "apps/power/tree_report.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/power/watts.hpp"
#include "apps/report/report.hpp"
#include "io/base/counted.hpp"
#include "io/base/printable.hpp"
#include "io/base/text.hpp"
#include "io/config/power_tree.hpp"

namespace troupe::apps::power_verb {

namespace {

using nlohmann::ordered_json;

bool is_modelled_source(fbs::PowerSource source) {
  return source == fbs::PowerSource::modelled;
}

double percent_of_1024(uint32_t share) {
  return 100.0 * share / 1024;
}

double ms_of_us(uint64_t us) {
  return static_cast<double>(us) / 1000;
}

/// What it has: what was granted, else what it says is in force.
double cap_w_of(const fbs::PowerChildT& c) {
  return watts_of_mw(c.granted_mw >= 0 ? c.granted_mw : c.in_force_mw);
}

/// How it is, what matters most first.
std::string state_of(const fbs::PowerChildT& c) {
  std::string out = c.silent ? "silent for " + time_text(c.heard_ago_ms)
                    : c.lease_left_ms > 0
                        ? fmt::format("lease {:.1f} s", static_cast<double>(c.lease_left_ms) / 1000)
                        : "no lease";
  if (c.unruly) out += ", draws more than its cap";
  if (c.shed) out += ", told to save and pause";
  if (c.brake) out += ", held by the brake";
  return out;
}

std::string unheard_words(const fbs::PowerChildT& c) {
  const auto counted_w = watts_of_mw(c.counted_mw);
  return fmt::format("not heard yet (counts {:.4g} W{})", counted_w,
                     c.counted_mw == c.static_share_mw ? ", its static share"
                     : c.counted_mw == c.ceiling_mw    ? ", its ceiling"
                                                       : "");
}

/// Why the child's class has less than its ceilings: "row0 over T2 (91 %) since 14:03:12".
std::string over_t2_words(const fbs::PowerTreeT& t, const fbs::PowerChildT& c) {
  const double share = c.priority == "high" ? t.high_share : t.low_share;
  if (t.over_t2_ms < 0 || !t.thresholds_stand || share >= 1) return "";
  const auto drawn_w = watts_of_mw(t.drawn_mw), cap_w = watts_of_mw(t.cap_mw);
  auto out = fmt::format(", {} over T2", printable(t.name));
  if (drawn_w >= 0 && cap_w > 0) out += fmt::format(" ({:.0f} %)", 100 * drawn_w / cap_w);
  return out + (t.over_t2_since.empty() ? " for " + time_text(static_cast<uint64_t>(t.over_t2_ms))
                                        : " since " + printable(t.over_t2_since));
}

/// The columns of a child: name, class, watts, pace, state.
std::vector<std::string> columns_of(const fbs::PowerTreeT& t, const fbs::PowerChildT& c) {
  std::vector<std::string> out{printable(c.name), printable(c.priority)};
  if (!c.heard) {
    out.push_back(unheard_words(c));
    return out;
  }
  out.push_back(watts_of(watts_of_mw(c.drawn_mw), is_modelled_source(c.source), cap_w_of(c)));
  out.push_back(c.pace_of_1024 == 0
                    ? "no steps"
                    : fmt::format("pace {:.0f} %", percent_of_1024(c.pace_of_1024)));
  const auto offset = offset_text(c);
  out.push_back(state_of(c) + over_t2_words(t, c) + (offset.empty() ? "" : ", " + offset));
  return out;
}

/// Columns as wide as their widest, two spaces between; what stands last in a line is as it is.
std::string aligned(const std::vector<std::vector<std::string>>& lines, size_t line) {
  std::string out;
  const auto& mine = lines[line];
  for (size_t i = 0; i < mine.size(); ++i) {
    size_t width = 0;
    for (const auto& l : lines)
      if (i + 1 < l.size()) width = std::max(width, l[i].size());
    out += i + 1 == mine.size() ? mine[i] : fmt::format("{:<{}}  ", mine[i], width);
  }
  return out;
}

/// How a row in thresholds is, in one line.
std::string thresholds_words(const fbs::PowerTreeT& t) {
  auto out = fmt::format("T1 {:.0f} T2 {:.0f}", 100 * t.t1, 100 * t.t2);
  if (!t.thresholds_stand) return out + "  static shares";
  if (t.low_share < 1) out += fmt::format("  low at {:.0f} %", 100 * t.low_share);
  if (t.high_share < 1) out += fmt::format("  high at {:.0f} %", 100 * t.high_share);
  if (t.t2 > t.safe_t2) out += fmt::format("  T2 is unsafe: {:.0f} is safe", 100 * t.safe_t2);
  return out;
}

/// What has befallen it in this life: "low capped 41 s, 0 brakes"; empty: nothing has.
std::string account_words(const fbs::PowerTreeT& t) {
  if (t.low_capped_ms + t.high_capped_ms + t.brakes == 0) return "";
  std::string out;
  if (t.low_capped_ms > 0) out += fmt::format("low capped {}, ", time_text(t.low_capped_ms));
  if (t.high_capped_ms > 0) out += fmt::format("high capped {}, ", time_text(t.high_capped_ms));
  return "  " + out + counted(t.brakes, "brake", "brakes");
}

std::string root_line(const fbs::PowerTreeT& t) {
  const auto drawn_w = watts_of_mw(t.drawn_mw), cap_w = watts_of_mw(t.cap_mw);
  std::string out = fmt::format("{}  {}  {}", printable(t.name), printable(t.mode),
                                watts_of(drawn_w, is_modelled_source(t.source), cap_w));
  if (drawn_w < 0) out += fmt::format("  counts {:.4g} W", watts_of_mw(t.counted_mw));
  if (drawn_w >= 0 && cap_w > 0) out += fmt::format("  {:.0f} %", 100 * drawn_w / cap_w);
  if (const auto cause = cause_text(t); !cause.empty()) out += "  " + cause;
  if (t.dry_run) out += "  a dry run: caps are decided, and not kept";
  if (t.t2 > 0) out += "  " + thresholds_words(t);
  out += account_words(t);
  if (t.brake && t.brake_above.empty()) out += "  the brake is on";
  if (!t.brake_above.empty())
    out += fmt::format("  {}the brake of {} is on", t.brake_here ? "its brake is on, and " : "",
                       printable(t.brake_above));
  if (t.brake_pulled)
    out += t.dry_run ? "  it would have pulled the brake" : "  it has pulled the brake";
  if (t.short_of_floors) out += "  less than the floors of its children";
  if (!t.knows) out += "  raises nobody before it knows what its children have";
  return out + "\n";
}

ordered_json child_json(const fbs::PowerChildT& c) {
  const auto drawn_w = watts_of_mw(c.drawn_mw);
  return {
      {"name", c.name},
      {"priority", c.priority},
      {"heard", c.heard},
      {"silent", c.silent},
      {"unruly", c.unruly},
      {"shed", c.shed},
      {"brake", c.brake},
      {"brake_armed", c.brake_armed},
      {"granted_w", number_or_null(watts_of_mw(c.granted_mw))},
      {"in_force_w", number_or_null(watts_of_mw(c.in_force_mw))},
      {"counted_w", watts_of_mw(c.counted_mw)},
      {"power_w", number_or_null(drawn_w)},
      {"power_source", source_of(drawn_w, is_modelled_source(c.source))},
      {"wish_w", number_or_null(watts_of_mw(c.wish_mw))},
      {"pace_percent", percent_of_1024(c.pace_of_1024)},
      {"floor_w", watts_of_mw(c.floor_mw)},
      {"static_w", watts_of_mw(c.static_share_mw)},
      {"ceiling_w", watts_of_mw(c.ceiling_mw)},
      {"lease_left_ms", c.lease_left_ms},
      {"heard_ago_ms", c.heard ? ordered_json(c.heard_ago_ms) : ordered_json(nullptr)},
      {"awaits_w", watts_of_mw(c.awaits_mw)},
      {"actuation_ms", c.actuation_ms < 0 ? ordered_json(nullptr) : ordered_json(c.actuation_ms)},
      {"step_ms", c.step_us == 0 ? ordered_json(nullptr) : ordered_json(ms_of_us(c.step_us))},
      {"start_offset_ms", ms_of_us(c.start_offset_us)},
      {"offset_age_ms",
       c.offset_age_ms < 0 ? ordered_json(nullptr) : ordered_json(c.offset_age_ms)}};
}

}  // namespace

std::string time_text(uint64_t ms) {
  return ms < 60'000 ? fmt::format("{} s", ms / 1000)
                     : report::duration(static_cast<double>(ms) / 1000);
}

std::string offset_text(const fbs::PowerChildT& c) {
  if (c.start_offset_us == 0 || c.offset_age_ms < 0) return "";
  const auto time = [](uint64_t us) {
    return us < 1'000'000 ? fmt::format("{:.3g} ms", ms_of_us(us))
                          : fmt::format("{:.3g} s", ms_of_us(us) / 1000);
  };
  return fmt::format("its steps{} shifted by {} {} ago",
                     c.step_us == 0 ? "" : " of " + time(c.step_us), time(c.start_offset_us),
                     time_text(static_cast<uint64_t>(c.offset_age_ms)));
}

std::string cause_text(const fbs::PowerTreeT& t) {
  if (!t.follows.empty()) return "by " + printable(t.follows);
  if (!t.set) return "";
  return fmt::format(
      "set{}{}", t.set_by.empty() ? "" : " by " + printable(t.set_by),
      t.set_left_ms == 0 ? "" : fmt::format(", for {} more", time_text(t.set_left_ms)));
}

std::string tree_text(const fbs::PowerTreeT& tree) {
  std::vector<std::vector<std::string>> lines;
  for (const auto& c : tree.children) lines.push_back(columns_of(tree, *c));
  std::string out = root_line(tree);
  for (size_t i = 0; i < lines.size(); ++i)
    out += fmt::format("{} {}\n", i + 1 == lines.size() ? "└" : "├", aligned(lines, i));
  return out;
}

std::string tree_json(const fbs::PowerTreeT& tree) {
  const auto drawn_w = watts_of_mw(tree.drawn_mw);
  ordered_json j{{"type", "power_tree"},
                 {"budget", tree.name},
                 {"mode", tree.mode},
                 {"budget_w", watts_of_mw(tree.cap_mw)},
                 {"power_w", number_or_null(drawn_w)},
                 {"power_source", source_of(drawn_w, is_modelled_source(tree.source))},
                 {"counted_w", watts_of_mw(tree.counted_mw)},
                 {"brake", tree.brake},
                 {"brake_above", tree.brake_above},
                 {"brake_pulled", tree.brake_pulled},
                 {"short_of_floors", tree.short_of_floors},
                 {"knows", tree.knows},
                 {"epoch", tree.epoch},
                 {"dry_run", tree.dry_run},
                 {"set", tree.set},
                 {"set_by", tree.set_by},
                 {"set_left_ms", tree.set_left_ms},
                 {"follows", tree.follows},
                 {"energy_j", tree.energy_j},
                 {"brakes", tree.brakes},
                 {"braked_ms", tree.braked_ms}};
  if (tree.t2 > 0)
    j["thresholds"] = {
        {"t1", tree.t1},
        {"t2", tree.t2},
        {"safe_t2", tree.safe_t2},
        {"stand", tree.thresholds_stand},
        {"low", tree.low_share},
        {"high", tree.high_share},
        {"low_capped_ms", tree.low_capped_ms},
        {"high_capped_ms", tree.high_capped_ms},
        {"over_t2_ms", tree.over_t2_ms < 0 ? ordered_json(nullptr) : ordered_json(tree.over_t2_ms)},
        {"over_t2_since", tree.over_t2_since}};
  j["children"] = ordered_json::array();
  for (const auto& c : tree.children) j["children"].push_back(child_json(*c));
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

result<int64_t> milliwatts_in(const std::string& text) {
  auto number = std::string_view(text);
  if (number.ends_with('W')) number.remove_suffix(1);
  double watts = 0;
  const auto* end = number.data() + number.size();
  const auto [rest, failed] = std::from_chars(number.data(), end, watts);
  const bool is_number = failed == std::errc() && rest == end && std::isfinite(watts);
  if (!is_number || watts > 1e9 || config::milliwatts(watts) <= 0)
    return error{errc::usage, fmt::format("{} is no budget", troupe::quoted(text)),
                 "a number above 0, in watts, at most 1e9"};
  return config::milliwatts(watts);
}

result<uint64_t> milliseconds_in(const std::string& text) {
  constexpr double year_ms = 366.0 * 24 * 3600 * 1000;
  const error wrong(errc::usage, fmt::format("{} is no time", text),
                    "a number above 0 and s, m, h or d, at most 366 days: 90s, 2h");
  double number = 0;
  const auto* end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc() || !std::isfinite(number)) return wrong;
  const auto unit = std::string(rest, end);
  const double ms = unit == "s"   ? 1000
                    : unit == "m" ? 60e3
                    : unit == "h" ? 3600e3
                    : unit == "d" ? 24 * 3600e3
                                  : 0;
  if (ms == 0 || number * ms < 1 || number * ms > year_ms) return wrong;
  return static_cast<uint64_t>(std::llround(number * ms));
}

}  // namespace troupe::apps::power_verb
