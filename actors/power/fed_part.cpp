// Speeds to watts.
#include "actors/power/fed_part.hpp"

#include <algorithm>

namespace troupe::power {

bool fed_part::feeds(const std::string& node) const {
  return nodes.empty() || std::ranges::find(nodes, node) != nodes.end();
}

double wished_speed(train::work_pace others) {
  constexpr double room = 1.25, least = 0.25;
  return std::clamp(room * others.share(), least, 1.0);
}

double drawn_at_w(const job_pace_policy::totals& all, double speed) {
  const double full_w = all.full_w >= 0 ? all.full_w : all.limit_w;
  if (full_w < 0) return -1;
  const double idle_w = std::clamp(all.idle_w, 0.0, full_w);
  return idle_w + (full_w - idle_w) * speed;
}

}  // namespace troupe::power
