// The median by which benchmarks tell what a noisy machine did most of the time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace troupe::apps {

/// The middle value, the mean of the two middle ones of an even count; 0 of nothing.
inline double median(std::vector<double> of) {
  if (of.empty()) return 0;
  std::sort(of.begin(), of.end());
  const size_t half = of.size() / 2;
  return of.size() % 2 == 1 ? of[half] : (of[half - 1] + of[half]) / 2;
}

}  // namespace troupe::apps
