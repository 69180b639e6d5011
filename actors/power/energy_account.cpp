// Trapezoids between readings.
#include "actors/power/energy_account.hpp"

#include <utility>

namespace troupe::power {

void energy_account::add(std::vector<gpu::metered>& devices, int64_t now_ns) {
  const auto apart_ns = now_ns - std::exchange(last_ns_, now_ns);
  const bool joined = apart_ns > 0 && apart_ns <= joined_ns_;
  for (auto& m : devices) {
    auto& e = entries_[m.device];
    const auto before_w = std::exchange(e.last_w, m.energy_j ? std::nullopt : m.power_w);
    if (m.energy_j) continue;
    if (joined && before_w && m.power_w)
      e.used_j = e.used_j.value_or(0) +
                 (*before_w + *m.power_w) / 2 * static_cast<double>(apart_ns) * 1e-9;
    m.energy_j = e.used_j;
  }
}

}  // namespace troupe::power
