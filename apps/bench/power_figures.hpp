// How rows of rounds are told: their median and range, what is worst, and whether an aim is met.
// NaN stands for what a round does not say, and spreads: what is not known meets nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/spread.hpp"

namespace troupe::apps::power_bench {

/// "1.02 (0.98-1.10)"; "-" of nothing.
inline std::string shown(const std::vector<double>& x, int digits) {
  if (x.empty()) return "-";
  const auto s = spread_of(x);
  return fmt::format("{:.{}f} ({:.{}f}-{:.{}f})", s.median, digits, s.least, digits, s.most,
                     digits);
}

/// NaN where there is none, or one is NaN.
inline double worst_of(const std::vector<double>& x) {
  double out = x.empty() ? std::nan("") : x.front();
  for (const double v : x) out = std::isnan(v) || std::isnan(out) ? std::nan("") : std::max(out, v);
  return out;
}

/// The same of the median.
inline double median_of(const std::vector<double>& x) {
  const bool told =
      !x.empty() && std::none_of(x.begin(), x.end(), [](double v) { return std::isnan(v); });
  return told ? median(x) : std::nan("");
}

/// The 99th percentile, by nearest rank. The same.
inline double p99_of(std::vector<double> x) {
  if (std::isnan(worst_of(x))) return std::nan("");
  std::sort(x.begin(), x.end());
  return x[(x.size() * 99 - 1) / 100];
}

inline std::string_view met(bool yes) {
  return yes ? "met" : "missed";
}

inline nlohmann::ordered_json number_or_null(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
}

/// Under a key of the row; nothing of nothing.
inline void add_spread(nlohmann::ordered_json& row, const char* key, const std::vector<double>& x) {
  if (!x.empty()) row[key] = json_of(spread_of(x));
}

}  // namespace troupe::apps::power_bench
