// The binomial, summed from below.
#include "actors/health/spares_policy.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::health {

int64_t spares_for(int64_t nodes, double per_1000_node_days) {
  constexpr double of_days = 0.99;
  const double p = std::clamp(per_1000_node_days / 1000, 0.0, 1.0);
  if (nodes <= 0 || p == 0) return 0;
  if (p == 1) return nodes;
  const auto n = static_cast<double>(nodes);
  double log_chance = n * std::log1p(-p);  // of none; as a logarithm, since it may be tiny
  double sum = std::exp(log_chance);
  int64_t k = 0;
  while (sum < of_days && k < nodes) {
    log_chance += std::log((n - static_cast<double>(k)) / static_cast<double>(k + 1)) +
                  std::log(p) - std::log1p(-p);
    sum += std::exp(log_chance);
    ++k;
  }
  return k;
}

}  // namespace troupe::health
