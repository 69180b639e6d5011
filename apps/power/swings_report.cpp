// The answer first, then what moves, then each remedy by itself (swings.hpp).
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/power/swings.hpp"
#include "trace/text.hpp"

namespace troupe::apps::power_verb {

namespace {

using nlohmann::ordered_json;
using power::remedied;
using power::swing_rules;
using power::swings;

std::string share(double w, const swings_told& t) {
  return fmt::format("{:.1f} %", 100 * w / t.rules.tdp_w);
}

std::string seen(const std::optional<double>& w, const swings_told& t) {
  return w ? share(*w, t) : "not seen";
}

std::vector<std::string> names_of(const std::vector<power::remedy>& all) {
  std::vector<std::string> out;
  for (const auto r : all) out.emplace_back(power::remedy_names[static_cast<size_t>(r)]);
  return out;
}

std::string cost(double x) {
  return std::abs(x) < 5e-5 ? "-" : fmt::format("{:+.1f} %", 100 * x);
}

std::vector<std::string> row_of(std::string name, const swings& s, double slower, double energy,
                                const swings_told& t) {
  return {std::move(name),
          seen(s.fall_w, t),
          seen(s.rise_w, t),
          s.swing_w() ? std::to_string(s.beyond) : "-",
          fmt::format("{:.0f}", s.ramp_w_per_s),
          s.band ? fmt::format("{:.1f} %", 100 * s.band->share) : "not seen",
          cost(slower),
          cost(energy)};
}

std::string band_text(const swings& s) {
  if (!s.band)
    return fmt::format("band    {:g} to {:g} Hz are not seen: samples are too far apart or too few",
                       swing_rules::from_hz, swing_rules::to_hz);
  auto out = fmt::format("band    {:.1f} % of the variance is within {:g} to {:g} Hz",
                         100 * s.band->share, swing_rules::from_hz, s.band->seen_hz);
  if (s.band->seen_hz < swing_rules::to_hz)
    out += fmt::format(" (up to {:g} Hz are not seen)", swing_rules::to_hz);
  return out;
}

ordered_json json_of(const swings& s, const swings_told& t) {
  const auto of = [&](const std::optional<double>& w) {
    return w ? ordered_json(*w / t.rules.tdp_w) : ordered_json(nullptr);
  };
  return {{"fall", of(s.fall_w)},
          {"beyond", s.beyond},
          {"rise", of(s.rise_w)},
          {"ramp_w_per_s", s.ramp_w_per_s},
          {"range_w", s.most_w - s.least_w},
          {"mean_w", s.mean_w},
          {"band_share", s.band ? ordered_json(s.band->share) : ordered_json(nullptr)},
          {"band_seen_hz", s.band ? ordered_json(s.band->seen_hz) : ordered_json(nullptr)}};
}

ordered_json json_of(const remedied& r, const swings_told& t) {
  auto out = json_of(r.now, t);
  out["slower"] = r.slower;
  out["more_energy"] = r.more_energy;
  return out;
}

}  // namespace

std::string swings_answer(const swings_told& t) {
  const auto& p = t.plan;
  if (!p.before.swing_w())
    return fmt::format("samples {:g} s apart do not show what swings within {:g} s", t.step_s,
                       swing_rules::window_s);
  const auto now =
      fmt::format("within {:g} s the watts fall by {} of the TDP and rise by {}",
                  swing_rules::window_s, share(*p.before.fall_w, t), share(*p.before.rise_w, t));
  const auto wanted = fmt::format("{:.0f} % wanted", 100 * t.rules.most_swing);
  if (p.wanted.empty())
    return fmt::format("{} ({}): {}", now, wanted,
                       p.kept ? "nothing is to be done" : "nothing here makes it less");
  return fmt::format("{}; {} {} it {} ({}{})", now, fmt::join(names_of(p.wanted), ", then "),
                     p.wanted.size() == 1 ? "makes" : "make", share(*p.together.now.swing_w(), t),
                     wanted, p.kept ? "" : ": missed");
}

/// Dips that asynchronous leaves.
std::string longer_dips(const swings_told& t) {
  const auto longer =
      std::count_if(t.plan.idle.inner.begin(), t.plan.idle.inner.end(), [&](const power::dip& d) {
        return static_cast<double>(d.to - d.from) * t.step_s > t.rules.longest_save_s;
      });
  return longer == 0
             ? ""
             : fmt::format(", {} longer than {:g} s and no save", longer, t.rules.longest_save_s);
}

std::string swings_text(const swings_told& t) {
  const auto& p = t.plan;
  auto out = swings_answer(t) + "\n\n";
  out +=
      fmt::format("trace   {:.4g} s, a sample each {:g} s; {:.5g} to {:.5g} W, {:.5g} on average\n",
                  static_cast<double>(t.watts.size()) * t.step_s, t.step_s, p.before.least_w,
                  p.before.most_w, p.before.mean_w);
  out += fmt::format("TDP     {:.5g} W{}\n", t.rules.tdp_w,
                     t.tdp_given ? "" : ", the most of the trace (--tdp-w says another)");
  out += fmt::format(
      "dips    {} in the midst of work{}, {:.3g} s in the middle, {:.1f} % of the time{}\n",
      p.idle.inner.size(), longer_dips(t), p.idle.median_s, 100 * p.idle.time_share,
      !p.idle.begin.empty() || !p.idle.end.empty() ? "; it begins or ends idle" : "");
  out += band_text(p.before) + "\n\n";
  std::vector<std::vector<std::string>> rows = {{"", "fall in 2 s", "rise in 2 s", "beyond",
                                                 "steepest W/s", "0.1-20 Hz", "slower", "energy"}};
  rows.push_back(row_of("as it is", p.before, 0, 0, t));
  for (size_t i = 0; i < p.alone.size(); ++i)
    rows.push_back(row_of(std::string(power::remedy_names[i]), p.alone[i].now, p.alone[i].slower,
                          p.alone[i].more_energy, t));
  if (p.wanted.size() > 1)
    rows.push_back(row_of(fmt::format("{}", fmt::join(names_of(p.wanted), " + ")), p.together.now,
                          p.together.slower, p.together.more_energy, t));
  out += trace::table_text(std::move(rows), 0);
  return out + fmt::format(
                   "\nbeyond: how often a fall or a rise is more than what is wanted; "
                   "asynchronous: dips of "
                   "up to {:g} s, taken for\nsaves, are left out; ramped: {:g} % of the TDP a "
                   "second, by the pace; phase: {} jobs apart; filler: {:.0f} % of the\nTDP, "
                   "falling as slowly; wanted last, and up to {:.0f} % more energy\n",
                   t.rules.longest_save_s, 100 * t.rules.ramp_per_s, t.rules.jobs,
                   100 * t.rules.floor, 100 * t.rules.most_filler_cost);
}

std::string swings_json(const swings_told& t) {
  const auto& p = t.plan;
  ordered_json alone;
  for (size_t i = 0; i < p.alone.size(); ++i)
    alone[std::string(power::remedy_names[i])] = json_of(p.alone[i], t);
  return ordered_json{{"answer", swings_answer(t)},
                      {"kept", p.kept},
                      {"wanted", names_of(p.wanted)},
                      {"tdp_w", t.rules.tdp_w},
                      {"step_s", t.step_s},
                      {"samples", t.watts.size()},
                      {"dips", p.idle.inner.size()},
                      {"dips_time", p.idle.time_share},
                      {"dip_median_s", p.idle.median_s},
                      {"before", json_of(p.before, t)},
                      {"alone", alone},
                      {"together", json_of(p.together, t)}}
      .dump();
}

}  // namespace troupe::apps::power_verb
