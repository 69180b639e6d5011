// A profile of clocks for tests of slack, of the form that A100 GPUs have: static power and power
// that grows with the clock's cube, work that is mostly bound by the clock, unlike stages.
#pragma once

#include <array>
#include <cstddef>

#include "actors/power/frontier_policy.hpp"

namespace troupe::power {

inline clock_profile a100_form(int stages) {
  constexpr std::array<double, 4> unlike = {0.95, 1, 0.92, 1.06};
  clock_profile out;
  out.stages.resize(static_cast<size_t>(stages));
  for (size_t s = 0; s < out.stages.size(); ++s)
    for (size_t which = 0; which < instructions; ++which) {
      const double work_s = (which == 0 ? 0.05 : 0.093) * unlike[s % unlike.size()];
      for (int mhz = 1410; mhz >= 810; mhz -= 15) {
        const double clock = mhz / 1410.0, time_s = work_s * (0.1 + 0.9 / clock);
        out.stages[s][which].push_back({mhz, time_s, time_s * (110 + 360 * clock * clock * clock)});
      }
    }
  return out;
}

inline frontier planned_frontier(frontier_policy& policy) {
  while (policy.advance()) {
  }
  return policy.take();
}

}  // namespace troupe::power
