// Exponential gaps.
#include "actors/sim/days/fault_schedule.hpp"

#include <algorithm>
#include <cmath>

#include "actors/sim/rng.hpp"

namespace troupe::sim {

std::vector<timed_fault> draw_schedule(const fault_mix& mix, int nodes, int64_t span_ns,
                                       uint64_t seed) {
  constexpr double day_ns = 86'400e9;
  std::vector<timed_fault> out;
  rng root(sim::mix(seed));
  for (size_t c = 0; c < mix.causes.size(); ++c) {
    const double a_day = mix.causes[c].per_1000_node_days * nodes / 1000;
    if (a_day <= 0) continue;
    rng random = root.split(c), verdicts = root.split(~c);
    double at_ns = 0;
    while (true) {
      at_ns += -std::log(1 - random.unit()) / a_day * day_ns;
      if (at_ns >= static_cast<double>(span_ns)) break;
      const auto node = static_cast<int>(random.below(static_cast<uint64_t>(nodes)));
      const double stays = random.unit(), when = random.unit();
      out.push_back({static_cast<int64_t>(at_ns), c, node, stays, when, verdicts.unit()});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
  return out;
}

}  // namespace troupe::sim
