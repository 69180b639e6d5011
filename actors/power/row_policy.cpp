// Rungs of each rule, and one tick.
#include "actors/power/row_policy.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace troupe::power {

namespace {

/// Clocks of an A100: its maximum, and those the paper and its reproduction lock.
constexpr int free_mhz = 1410, base_mhz = 1275, deep_mhz = 1110, deepest_mhz = 810, hp_mhz = 1305;

void add(row_rules& rules, const row_rung& rung) {
  rules.rungs[rules.rung_count++] = rung;
}

/// The brake as it is by now, if nothing is commanded.
void go_on(row_state& s, const row_rules& rules, int64_t now_ns) {
  if (now_ns - s.brake_ns < rules.brake_actuation_ns) return;
  if (s.brake == row_brake::arming) {
    s.brake = row_brake::on;
    s.brake_ns += rules.brake_actuation_ns;
  } else if (s.brake == row_brake::releasing && s.released_groups >= rules.release_groups) {
    s.brake = row_brake::off;
    s.brake_ns += rules.brake_actuation_ns;
  }
}

bool settled(const row_state& s, int64_t now_ns, int64_t for_ns) {
  return !s.command_ns || now_ns - *s.command_ns >= for_ns;
}

}  // namespace

std::string_view to_string(row_rule rule) {
  return row_rule_names[static_cast<size_t>(rule)];
}

std::string_view to_string(row_reason reason) {
  return row_reason_names[static_cast<size_t>(reason)];
}

row_rules rules_of(row_rule rule, const row_thresholds& t, int64_t actuation_ns, int64_t tick_ns) {
  row_rules out;
  out.max_mhz = free_mhz;
  out.settle_up_ns = out.settle_down_ns = actuation_ns + tick_ns;
  switch (rule) {
    case row_rule::none:
      break;
    case row_rule::low:
      add(out, {t.t2, deep_mhz, free_mhz, true});
      break;
    case row_rule::all:
      add(out, {t.t2, deep_mhz, deep_mhz, true});
      break;
    case row_rule::polca:
      add(out, {t.t1, base_mhz, free_mhz, true});
      add(out, {t.t2, deep_mhz, free_mhz, true});
      add(out, {t.t2, deep_mhz, hp_mhz, false});
      break;
    case row_rule::ladder:
      out.settle_up_ns = actuation_ns;
      out.settle_down_ns = ladder_undo_ns;
      add(out, {t.t1, base_mhz, free_mhz, true});
      add(out, {t.t2, deep_mhz, free_mhz, true});
      add(out, {t.t2, deepest_mhz, free_mhz, false});
      add(out, {t.t3, deepest_mhz, hp_mhz, false});
      add(out, {t.t3, deepest_mhz, deep_mhz, false});
      break;
  }
  return out;
}

rung_marks marks_of(const row_rules& rules) {
  rung_marks out{};
  size_t count = 0;
  for (size_t i = 0; i < rules.rung_count && count < out.size(); ++i)
    if (const double t = rules.rungs[i].threshold; count == 0 || t != out[count - 1])
      out[count++] = t;
  return out;
}

status check(row_rule rule, const row_thresholds& t) {
  const auto wrong = [](std::string what) {
    return error{errc::usage, std::move(what),
                 "thresholds are shares of the budget, as --t1 0.80 --t2 0.89"};
  };
  const double least = row_rules{}.hysteresis;
  for (const auto& [name, value] : {std::pair{"T1", t.t1}, {"T2", t.t2}, {"T3", t.t3}})
    if (!(value > least && value <= 1))
      return wrong(fmt::format("{} is above {} and at most 1, and not {}", name, least, value));
  if (t.t1 > t.t2 && (rule == row_rule::polca || rule == row_rule::ladder))
    return wrong(fmt::format("T1, {}, is above T2, {}", t.t1, t.t2));
  if (t.t2 > t.t3 && rule == row_rule::ladder)
    return wrong(fmt::format("T2, {}, is above T3, {}", t.t2, t.t3));
  return {};
}

/// ROW-1 upwards, ROW-2 downwards.
size_t row_policy::next_level(const row_state& s, const row_sample& sample, double power,
                              bool blind, int64_t now_ns) const {
  const bool may_climb = settled(s, now_ns, rules_.settle_up_ns);
  auto level = s.level;
  for (auto i = s.level; i < rules_.rung_count; ++i) {
    const auto& rung = rules_.rungs[i];
    if (!(power > rung.threshold)) break;
    if (!rung.at_once && !(i == s.level && may_climb)) break;
    level = i + 1;
    if (!rung.at_once) break;
  }
  if (level != s.level || level == 0 || blind) return level;
  const bool low = power < rules_.rungs[level - 1].threshold - rules_.hysteresis;
  if (sample.unruly)  // ROW-6
    return !low && may_climb && level < rules_.rung_count ? level + 1 : level;
  if (s.brake != row_brake::off) return level;
  return low && settled(s, now_ns, rules_.settle_down_ns) ? level - 1 : level;
}

/// ROW-4, ROW-5
void row_policy::work_brake(row_decision& d, double power, bool read, bool caps_do,
                            int64_t now_ns) const {
  auto& s = d.state;
  auto& c = d.commands;
  const bool releases =
      s.brake == row_brake::releasing && s.released_groups < rules_.release_groups;
  if ((s.brake == row_brake::off || releases) && power > rules_.brake_at && !caps_do) {
    s.brake = row_brake::arming;
    s.released_groups = 0;
    ++s.brakes;
    c.brake = true;
    c.reason = row_reason::overload;
  } else if (s.brake == row_brake::on && read && now_ns - s.brake_ns > rules_.brake_hold_ns) {
    s.brake = row_brake::releasing;
    c.brake = false;
    c.release_group = s.released_groups++;
    c.reason = row_reason::held;
  } else if (releases && read && now_ns - s.brake_ns >= rules_.release_gap_ns &&
             power < rules_.brake_at - rules_.hysteresis) {
    c.release_group = s.released_groups++;
    c.reason = row_reason::held;
  } else {
    return;
  }
  s.brake_ns = now_ns;
}

row_decision row_policy::decide(const row_state& before, const row_sample& sample,
                                int64_t now_ns) const {
  row_decision out{before, {}};
  auto& s = out.state;
  auto& c = out.commands;
  go_on(s, rules_, now_ns);
  const bool read = sample.drawn && std::isfinite(*sample.drawn);
  s.silent_ticks = read ? 0 : std::min(s.silent_ticks + 1, rules_.stale_ticks);
  const bool blind = s.silent_ticks >= rules_.stale_ticks;
  if (!read && !blind) {
    c.reason = row_reason::no_reading;
    return out;
  }
  const double power = read ? *sample.drawn : sample.at_caps;  // ROW-3
  const auto level = next_level(s, sample, power, blind, now_ns);
  if (level != s.level) {
    if (rules_.lp_mhz(level) != rules_.lp_mhz(s.level)) c.lp_mhz = rules_.lp_mhz(level);
    if (rules_.hp_mhz(level) != rules_.hp_mhz(s.level)) c.hp_mhz = rules_.hp_mhz(level);
    c.reason = level > s.level ? row_reason::above : row_reason::below;
  }
  // Unseen, the brake waits until all caps are in force: they may be enough.
  const bool caps_do = blind && (s.level < rules_.rung_count ||
                                 !settled(s, now_ns, rules_.settle_up_ns) || level != s.level);
  if (level != s.level) {
    s.level = level;
    s.command_ns = now_ns;
  }
  work_brake(out, power, read, caps_do, now_ns);
  return out;
}

}  // namespace troupe::power
