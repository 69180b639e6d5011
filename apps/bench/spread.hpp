// The numbers by which benchmarks tell what a noisy machine did: median, least and most.
#pragma once

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/base/median.hpp"

namespace troupe::apps {

/// Of several rounds.
struct spread {
  double median = 0, least = 0, most = 0;
};

/// 0 of nothing.
inline spread spread_of(const std::vector<double>& x) {
  if (x.empty()) return {};
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  return {median(x), *least, *most};
}

inline nlohmann::ordered_json json_of(const spread& s) {
  return {{"median", s.median}, {"least", s.least}, {"most", s.most}};
}

}  // namespace troupe::apps
