// Counts what has begun against what may.
#include "actors/health/slow_evictions_policy.hpp"

#include <algorithm>

namespace troupe::health {

bool slow_evictions_policy::allows(const config::recovery_section& rules, uint64_t spares,
                                   std::span<const past_recovery> past) {
  if (!rules.enabled || !rules.evict_slow || spares == 0) return false;  // SEV-1
  constexpr double hour_s = 3600;
  const auto stragglers = facts_of(finding_name::straggler).name;
  const auto slow_within = [&](double seconds) {
    return std::count_if(past.begin(), past.end(), [&](const past_recovery& p) {
      return p.ago_s < seconds && p.finding == stragglers;
    });
  };
  const auto within_hour = std::count_if(past.begin(), past.end(),
                                         [](const past_recovery& p) { return p.ago_s < hour_s; });
  if (within_hour + 1 >= rules.most_per_hour || slow_within(hour_s) >= most_per_hour) return false;
  return std::any_of(rules.rule.begin(), rules.rule.end(), [&](const config::recovery_rule& r) {
    return r.finding == finding_name::straggler &&
           (r.times == 0 || slow_within(static_cast<double>(r.within_s)) < r.times);
  });
}

}  // namespace troupe::health
