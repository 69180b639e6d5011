// Counts by machine.
#include "actors/power/shared_machines.hpp"

#include <utility>

namespace troupe::power {

bool shared_machines::hear(size_t child, std::set<std::string> machines) {
  const auto of_others = names_ - machines_[child].size();
  const bool fits = of_others + machines.size() <= most_names;
  if (!fits) machines.clear();  // SHM-2
  names_ = of_others + machines.size();
  for (const auto& m : machines) ++children_[m];
  for (const auto& m : std::exchange(machines_[child], std::move(machines)))
    if (--children_[m] == 0) children_.erase(m);
  return fits;
}

machine_counts shared_machines::shared_by(size_t child, const machine_counts& above) const {
  machine_counts out;
  for (const auto& m : machines_[child]) {
    const auto others = above.find(m);
    const auto all = children_.at(m) + (others == above.end() ? 0 : others->second - 1);
    if (all > 1) out.emplace(m, all);
  }
  return out;
}

}  // namespace troupe::power
