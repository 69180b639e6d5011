// Time to stairs.
#include "actors/power/ramp_policy.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::power {

namespace {

/// What takes longer is as good as never.
constexpr double beyond_ramp_ns = 1e17;
/// So that what is earned to the last bit counts.
constexpr double whole_stair = 1e-6;

}  // namespace

/// How long a 1024th of full speed takes to be earned.
double ramp_policy::stair_ns(double work_w) const {
  return std::min(beyond_ramp_ns, work_w / work_pace::whole / slope_w_s_ * 1e9);
}

/// RMP-1, RMP-3
void ramp_policy::steps(work_pace pace, std::optional<double> work_w, int64_t now_ns) {
  const int rise = pace.of_1024 - in_force_.of_1024;
  in_force_ = pace;
  if (!is_on() || rise == 0) return;
  if (rise < 0 || !work_w) {
    earns_since_ns_ = now_ns;
    return;
  }
  const double stair = stair_ns(*work_w);
  const auto most_ns = std::max(burst_ns, static_cast<int64_t>(stair));
  earns_since_ns_ = std::max(earns_since_ns_, now_ns - most_ns) +
                    static_cast<int64_t>(std::min(beyond_ramp_ns, stair * rise));
}

work_pace ramp_policy::next(work_pace wanted, std::optional<double> work_w, int64_t now_ns) const {
  if (!is_on() || wanted <= in_force_) return wanted;  // RMP-2
  const auto least = std::max(in_force_, work_pace_policy::least_pace);
  if (!work_w) return std::min(wanted, least);  // RMP-4
  const double stair = stair_ns(*work_w);
  if (stair <= 0) return wanted;
  const double earned_ns = std::clamp(static_cast<double>(now_ns - earns_since_ns_), 0.0,
                                      std::max(static_cast<double>(burst_ns), stair));
  const double stairs = std::min<double>(work_pace::whole, earned_ns / stair + whole_stair);
  const work_pace may{in_force_.of_1024 + static_cast<int>(stairs)};
  return std::min(wanted, std::max(least, may));
}

std::optional<int64_t> ramp_policy::reaches_ns(work_pace wanted, std::optional<double> work_w,
                                               int64_t now_ns) const {
  if (!is_on() || wanted <= in_force_) return now_ns;
  if (!work_w) return std::nullopt;
  const double takes_ns = stair_ns(*work_w) * (wanted.of_1024 - in_force_.of_1024);
  const auto earned_ns = std::max(earns_since_ns_, now_ns - burst_ns);
  return std::max(now_ns, earned_ns + static_cast<int64_t>(std::min(beyond_ramp_ns, takes_ns)));
}

}  // namespace troupe::power
