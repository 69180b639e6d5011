// Means over orders for what is aimed at, medians and ranges beside them.
#include "apps/bench/predict_steps_report.hpp"

#include <map>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/spread.hpp"

namespace troupe::apps::predict_bench {

namespace {

/// By rows that were told, in percent.
const std::map<size_t, double> aims = {{40, 12}, {80, 6}, {160, 1.5}};
constexpr double clusters_aim = 6.7;
/// vTrain's own predictor, of the same rows, as its authors report it.
constexpr double vtrain_single = 8.37, vtrain_clusters = 14.73;
constexpr size_t held_from = 160;
constexpr double held_least = 88, held_most = 99;
constexpr double fit_aim_ms = 1000, ask_aim_ms = 1;

std::vector<double> values_of(const steps_row& row, double steps_error::*what) {
  std::vector<double> out;
  for (const auto& r : row.rounds) out.push_back(r.*what);
  return out;
}

double mean_of(const std::vector<double>& x) {
  return x.empty() ? 0 : std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double mean_of(const steps_row& row, double steps_error::*what) {
  return mean_of(values_of(row, what));
}

bool quick(const steps_row& row) {
  return median(row.fit_ms) <= fit_aim_ms && median(row.ask_ms) <= ask_aim_ms;
}

bool held(const steps_row& row) {
  const double share = mean_of(row, &steps_error::held);
  return share >= held_least && share <= held_most;
}

std::string row_text(std::string_view name, const steps_row& row, const std::string& aim) {
  const auto ours = spread_of(values_of(row, &steps_error::ours));
  return fmt::format(
      "{:<12} {:>7.2f} {:>15} {:>7} {:>8.1f} {:>8.2f} {:>9.2f} {:>8.2f} {:>8.1f} "
      "{:>8.4f}\n",
      name, mean_of(row, &steps_error::ours), fmt::format("({:.2f}-{:.2f})", ours.least, ours.most),
      aim, mean_of(row, &steps_error::held), mean_of(row, &steps_error::ridge),
      mean_of(row, &steps_error::roofline), mean_of(row, &steps_error::nearest), median(row.fit_ms),
      median(row.ask_ms));
}

nlohmann::ordered_json error_json(const steps_row& row, double steps_error::*what) {
  const auto values = values_of(row, what);
  auto out = json_of(spread_of(values));
  out["mean"] = mean_of(values);
  return out;
}

nlohmann::ordered_json row_json(const steps_row& row) {
  return {{"told", row.told},
          {"error_percent", error_json(row, &steps_error::ours)},
          {"held_percent", error_json(row, &steps_error::held)},
          {"ridge_error_percent", error_json(row, &steps_error::ridge)},
          {"roofline_error_percent", error_json(row, &steps_error::roofline)},
          {"nearest_error_percent", error_json(row, &steps_error::nearest)},
          {"fit_ms", json_of(spread_of(row.fit_ms))},
          {"ask_ms", json_of(spread_of(row.ask_ms))}};
}

std::string_view told_as(bool met) {
  return met ? "met" : "missed";
}

}  // namespace

steps_verdict verdict_of(const steps_measurement& m) {
  steps_verdict out;
  for (const auto& row : m.single) {
    const auto aim = aims.find(row.told);
    if (aim != aims.end())
      out.errors = out.errors && mean_of(row, &steps_error::ours) <= aim->second;
    if (row.told >= held_from) out.intervals = out.intervals && held(row);
    out.speed = out.speed && quick(row);
  }
  out.clusters = mean_of(m.clusters, &steps_error::ours) <= clusters_aim;
  out.speed = out.speed && quick(m.clusters);
  return out;
}

std::string text_of(const steps_measurement& m) {
  auto out = fmt::format("{:<12} {:>7} {:>15} {:>7} {:>8} {:>8} {:>9} {:>8} {:>8} {:>8}\n",
                         "rows told", "error %", "(orders)", "aim", "within %", "ridge %",
                         "roofline", "nearest", "fit ms", "ask ms");
  for (const auto& row : m.single) {
    const auto aim = aims.find(row.told);
    out += row_text(fmt::format("{}", row.told), row,
                    aim == aims.end() ? "-" : fmt::format("{}", aim->second));
  }
  out += row_text("clusters", m.clusters, fmt::format("{}", clusters_aim));
  const auto v = verdict_of(m);
  out += fmt::format(
      "step times that vTrain measured, {} orders: on a node, by so many of its rows, and on "
      "clusters, by\nnine tenths of their rows; vTrain's own predictor, without any row: {} and {} "
      "%. within: their 95 %\nintervals. Errors are means of orders; aims: errors {}, {:.0f} to "
      "{:.0f} % within from {} rows on {},\nclusters {}, a fit within {:.0f} ms and a question "
      "within {:.0f} ms {}\n",
      m.clusters.rounds.size(), vtrain_single, vtrain_clusters, told_as(v.errors), held_least,
      held_most, held_from, told_as(v.intervals), told_as(v.clusters), fit_aim_ms, ask_aim_ms,
      told_as(v.speed));
  return out;
}

nlohmann::ordered_json json_of(const steps_measurement& m) {
  auto single = nlohmann::ordered_json::array();
  for (const auto& row : m.single) {
    single.push_back(row_json(row));
    const auto aim = aims.find(row.told);
    if (aim != aims.end()) single.back()["aim_percent"] = aim->second;
  }
  auto clusters = row_json(m.clusters);
  clusters["aim_percent"] = clusters_aim;
  clusters["vtrain_error_percent"] = vtrain_clusters;
  const auto v = verdict_of(m);
  return {{"single", std::move(single)},
          {"clusters", std::move(clusters)},
          {"met",
           {{"errors", v.errors},
            {"intervals", v.intervals},
            {"clusters", v.clusters},
            {"speed", v.speed}}}};
}

}  // namespace troupe::apps::predict_bench
