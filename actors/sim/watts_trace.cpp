// Sharing out what an operation draws among the parts that it lasts.
#include "actors/sim/watts_trace.hpp"

#include <algorithm>

namespace troupe::sim {

void watts_trace::add(int64_t from_ns, int64_t until_ns, double watts) {
  if (each_ns_ <= 0) return;
  while (from_ns < until_ns) {
    const int64_t part = from_ns / each_ns_;
    const int64_t to_ns = std::min(until_ns, (part + 1) * each_ns_);
    if (above_idle_.size() <= static_cast<size_t>(part))
      above_idle_.resize(static_cast<size_t>(part) + 1);
    above_idle_[static_cast<size_t>(part)] += watts * static_cast<double>(to_ns - from_ns);
    from_ns = to_ns;
  }
}

std::vector<double> watts_trace::means(double idle_w, int64_t until_ns) const {
  if (each_ns_ <= 0) return {};
  std::vector<double> out(static_cast<size_t>(until_ns / each_ns_), idle_w);
  for (size_t i = 0; i < std::min(out.size(), above_idle_.size()); ++i)
    out[i] += above_idle_[i] / static_cast<double>(each_ns_);
  return out;
}

}  // namespace troupe::sim
