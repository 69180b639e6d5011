// The numbers by which benchmarks tell what a noisy machine did: median, least and most.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <nlohmann/json.hpp>

namespace troupe::apps {

/// Of several rounds.
struct spread {
  double median = 0, least = 0, most = 0;
};

/// The median is the middle value, the mean of the two middle ones of an even count; 0 of nothing.
inline spread spread_of(std::vector<double> x) {
  if (x.empty()) return {};
  std::sort(x.begin(), x.end());
  const size_t half = x.size() / 2;
  return {x.size() % 2 == 1 ? x[half] : (x[half - 1] + x[half]) / 2, x.front(), x.back()};
}

inline double median(std::vector<double> x) {
  return spread_of(std::move(x)).median;
}

inline nlohmann::ordered_json json_of(const spread& s) {
  return {{"median", s.median}, {"least", s.least}, {"most", s.most}};
}

}  // namespace troupe::apps
