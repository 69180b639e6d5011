// Of placement: what it comes to, as a table and as JSON (predict_placement.hpp).
#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/job_launch.hpp"
#include "apps/bench/predict_placement.hpp"
#include "apps/bench/spread.hpp"

namespace troupe::apps::predict_bench {

namespace {

/// What is to be reached.
constexpr double over_even_aim = 1.25, of_best_aim = 1.05;

spread placed_ms_of(const placement_row& row) {
  std::vector<double> out;
  for (const auto& r : row.rounds) out.push_back(median(r.step_ms));
  return spread_of(out);
}

/// Of the even way: none are told.
std::string layers_of(const placement_row& row) {
  std::string out;
  for (const auto& r : row.rounds)
    if (out.find(r.layers) == out.npos) out += (out.empty() ? "" : " or ") + r.layers;
  return out.empty() ? "-" : out;
}

bool all_same(const power_bench::live_losses& a, const power_bench::live_losses& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && same_loss(x.second, y.second);
  });
}

/// BPP-2.
bool has_same_bits(const placement_measurement& m) {
  std::map<std::string, const power_bench::live_losses*> truth;
  for (const auto& row : m.rows)
    if (is_by_hand(row.way) && !row.rounds.empty()) truth[row.way] = &row.rounds.front().losses;
  for (const auto& row : m.rows)
    for (const auto& r : row.rounds)
      if (const auto it = truth.find(r.layers);
          it != truth.end() && !all_same(r.losses, *it->second))
        return false;
  return true;
}

}  // namespace

bool placement_verdict::met() const {
  return over_even >= over_even_aim && of_best <= of_best_aim && same_bits;
}

placement_verdict verdict_of(const placement_measurement& m) {
  double even = 0, measured = 0, best = std::numeric_limits<double>::infinity();
  for (const auto& row : m.rows) {
    const double ms = placed_ms_of(row).median;
    if (row.way == even_way) even = ms;
    if (row.way == measured_way) measured = ms;
    best = std::min(best, ms);
  }
  if (!(measured > 0)) return {};
  return {even / measured, measured / best, has_same_bits(m)};
}

std::string text_of(const placement_measurement& m) {
  auto out = fmt::format("{:<10} {:>12} {:>12} {:>18}\n", "way", "layers", "step ms", "");
  for (const auto& row : m.rows) {
    const auto ms = placed_ms_of(row);
    out += fmt::format("{:<10} {:>12} {:>12.1f} {:>18}\n", row.way, layers_of(row), ms.median,
                       fmt::format("({:.1f}-{:.1f})", ms.least, ms.most));
  }
  const auto v = verdict_of(m);
  return out +
         fmt::format(
             "one of two nodes is stopped half of the time. measured is {:.2f} times as quick as "
             "even (aim {}), its step {:.2f} times the best's (aim {}); losses of the same layers "
             "are {}. The aim is {}\n",
             v.over_even, over_even_aim, v.of_best, of_best_aim,
             v.same_bits ? "the same" : "not the same", v.met() ? "met" : "missed");
}

nlohmann::ordered_json json_of(const placement_measurement& m) {
  nlohmann::ordered_json out;
  out["rows"] = nlohmann::ordered_json::array();
  for (const auto& row : m.rows) {
    auto layers = nlohmann::ordered_json::array();
    for (const auto& r : row.rounds)
      if (!r.layers.empty()) layers.push_back(r.layers);
    out["rows"].push_back(
        {{"way", row.way}, {"layers", layers}, {"step_ms", json_of(placed_ms_of(row))}});
  }
  const auto v = verdict_of(m);
  out["over_even"] = v.over_even;
  out["over_even_aim"] = over_even_aim;
  out["of_best"] = v.of_best;
  out["of_best_aim"] = of_best_aim;
  out["same_bits"] = v.same_bits;
  out["met"] = v.met();
  return out;
}

}  // namespace troupe::apps::predict_bench
