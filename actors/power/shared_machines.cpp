// Sums by machine.
#include "actors/power/shared_machines.hpp"

namespace troupe::power {

void shared_machines::settle(const std::function<bool(size_t child)>& is_silent) {
  machines_.clear();
  settled_ = loads_;
  for (size_t i = 0; i < settled_.size(); ++i) {
    if (is_silent(i)) settled_[i].clear();  // SHM-2
    for (const auto& [machine, busy] : settled_[i]) {
      auto& all = machines_[machine];
      ++all.children;
      all.known = all.known && busy >= 0;
      all.busy += busy;
    }
  }
}

/// SHM-1: by heads where nobody works, or where it is not known who does.
std::map<std::string, double> shared_machines::shares_of(size_t child) const {
  std::map<std::string, double> out;
  if (child >= settled_.size()) return out;
  for (const auto& [machine, busy] : settled_[child]) {
    const auto& all = machines_.at(machine);
    if (all.children < 2) continue;
    out[machine] =
        all.known && all.busy > 0 ? busy / all.busy : 1 / static_cast<double>(all.children);
  }
  return out;
}

}  // namespace troupe::power
