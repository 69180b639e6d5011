// Rows and aims (power_live_report.hpp).
#include "apps/bench/power_live_report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "apps/bench/power_figures.hpp"
#include "apps/bench/spread.hpp"

namespace troupe::apps::power_bench {

namespace {

using field = std::function<std::optional<double>(const live_run&)>;

/// Of the rounds that say it.
std::vector<double> all_of(const live_row& row, const field& of) {
  std::vector<double> out;
  for (const auto& r : row.rounds)
    if (const auto v = of(r)) out.push_back(*v);
  return out;
}

std::optional<double> step_ms_of(const live_run& r) {
  return median(r.step_ms);
}

/// None where the way was not wanted.
const live_row* row_of(const live_measurement& m, budget_way way) {
  const auto it =
      std::find_if(m.rows.begin(), m.rows.end(), [&](const live_row& r) { return r.way == way; });
  return it == m.rows.end() ? nullptr : &*it;
}

/// Of rounds that nobody disturbed; NaN in the place of what one of them does not say.
std::vector<double> quiet_of(const live_measurement& m, budget_way way, const field& of) {
  std::vector<double> out;
  if (const auto* row = row_of(m, way))
    for (const auto& r : row->rounds)
      if (!r.disturbed()) out.push_back(of(r).value_or(std::nan("")));
  return out;
}

/// Step times of two ways in the same round, one over the other.
std::vector<double> costs_of(const live_measurement& m) {
  std::vector<double> out;
  const auto *none = row_of(m, budget_way::none), *wide = row_of(m, budget_way::wide);
  if (none == nullptr || wide == nullptr) return out;
  for (size_t i = 0; i < std::min(none->rounds.size(), wide->rounds.size()); ++i) {
    const auto &a = none->rounds[i], &b = wide->rounds[i];
    if (!a.disturbed() && !b.disturbed()) out.push_back(median(b.step_ms) / median(a.step_ms));
  }
  return out;
}

constexpr std::string_view not_judged = "not judged, each of its rounds was disturbed or not kept";

std::string aims_of(const live_measurement& m) {
  const auto v = verdict_of(m);
  std::string out;
  if (row_of(m, budget_way::tight) != nullptr)
    out += std::isnan(v.worst_share)
               ? fmt::format("tight: {}\n", not_judged)
               : fmt::format(
                     "tight: any {} s within {} times the budget, {:.3f} at worst: {}; "
                     "{:.3f} of it used, wanted {}: {}\n",
                     window_s, most_share, v.worst_share, met(v.worst_share <= most_share),
                     v.mean_share, least_mean_share, met(v.mean_share >= least_mean_share));
  if (row_of(m, budget_way::wide) != nullptr)
    out +=
        std::isnan(v.cost)
            ? fmt::format("wide: {}\n", not_judged)
            : fmt::format("wide: a step takes {:.4f} times that of none, wanted {} at most: {}\n",
                          v.cost, most_cost, met(v.cost <= most_cost));
  if (row_of(m, budget_way::cut) != nullptr)
    out += std::isnan(v.held_after_s)
               ? fmt::format("cut: {}\n", not_judged)
               : fmt::format(
                     "cut: {:.2f} s after the command, at worst, {} s begin that are within "
                     "{} times the budget; from\nthere on any are within {:.3f}\n",
                     v.held_after_s, window_s, most_share, v.worst_after);
  if (v.disturbed > 0)
    out += fmt::format(
        "{} of these jobs were disturbed, others kept more than {} of a processor "
        "busy: left out here\n",
        v.disturbed, most_others);
  return out + fmt::format("losses: {}\n",
                           v.same_bits ? "the same in each way, bit by bit" : "NOT THE SAME");
}

}  // namespace

live_verdict verdict_of(const live_measurement& m) {
  live_verdict out;
  const auto tight = [&](const field& of) { return quiet_of(m, budget_way::tight, of); };
  out.worst_share = worst_of(tight([](const live_run& r) { return r.most_share; }));
  out.mean_share = median_of(tight([](const live_run& r) { return r.mean_share; }));
  out.cost = median_of(costs_of(m));
  out.held_after_s =
      worst_of(quiet_of(m, budget_way::cut, [](const live_run& r) { return r.held_after_s; }));
  out.worst_after =
      worst_of(quiet_of(m, budget_way::cut, [](const live_run& r) { return r.most_share; }));
  for (const auto& row : m.rows)
    out.disturbed += static_cast<int>(std::count_if(
        row.rounds.begin(), row.rounds.end(), [](const live_run& r) { return r.disturbed(); }));
  out.same_bits = std::all_of(m.rows.begin(), m.rows.end(), [](const live_row& r) {
    return r.same_bits == static_cast<int>(r.rounds.size());
  });
  return out;
}

std::string text_of(const live_measurement& m) {
  std::string out =
      fmt::format("{:<6} {:>22} {:>17} {:>17} {:>17} {:>17} {:>16} {:>5}\n", "way", "step ms",
                  "busy", "others", "of budget", "most in 10 s", "held after s", "bits");
  for (const auto& r : m.rows) {
    const auto all = [&](const field& of) { return all_of(r, of); };
    out += fmt::format("{:<6} {:>22} {:>17} {:>17} {:>17} {:>17} {:>16} {:>5}\n",
                       budget_ways[static_cast<size_t>(r.way)].id, shown(all(step_ms_of), 1),
                       shown(all([](const live_run& x) { return std::optional(x.processors); }), 2),
                       shown(all([](const live_run& x) { return std::optional(x.others); }), 2),
                       shown(all([](const live_run& x) { return x.mean_share; }), 3),
                       shown(all([](const live_run& x) { return x.most_share; }), 3),
                       shown(all([](const live_run& x) { return x.held_after_s; }), 2),
                       fmt::format("{}/{}", r.same_bits, r.rounds.size()));
  }
  out += fmt::format(
      "\nmedian (least-most) of rounds; busy: processors of the machine while steps were made, of "
      "them others'; of\nbudget: what was kept busy of {:.2f} processors, by tight from {} s after "
      "its first step on, by cut once it held\n",
      m.budget_processors, settling_s);
  for (const auto& w : budget_ways)
    if (row_of(m, w.way) != nullptr) out += fmt::format("  {:<6} {}\n", w.id, w.about);
  return out + "\n" + aims_of(m);
}

nlohmann::ordered_json json_of(const live_measurement& m) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& r : m.rows) {
    nlohmann::ordered_json row{{"way", budget_ways[static_cast<size_t>(r.way)].id},
                               {"rounds", r.rounds.size()},
                               {"same_bits", r.same_bits}};
    add_spread(row, "step_ms", all_of(r, step_ms_of));
    add_spread(row, "busy_processors",
               all_of(r, [](const live_run& x) { return std::optional(x.processors); }));
    add_spread(row, "others_processors",
               all_of(r, [](const live_run& x) { return std::optional(x.others); }));
    add_spread(row, "mean_share", all_of(r, [](const live_run& x) { return x.mean_share; }));
    add_spread(row, "most_share", all_of(r, [](const live_run& x) { return x.most_share; }));
    add_spread(row, "held_after_s", all_of(r, [](const live_run& x) { return x.held_after_s; }));
    rows.push_back(std::move(row));
  }
  const auto v = verdict_of(m);
  return {{"budget_processors", m.budget_processors},
          {"rows", rows},
          {"worst_share", number_or_null(v.worst_share)},
          {"mean_share", number_or_null(v.mean_share)},
          {"cost", number_or_null(v.cost)},
          {"held_after_s", number_or_null(v.held_after_s)},
          {"worst_after", number_or_null(v.worst_after)},
          {"disturbed", v.disturbed},
          {"same_bits", v.same_bits}};
}

}  // namespace troupe::apps::power_bench
