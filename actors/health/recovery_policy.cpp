// Rules and budget.
#include "actors/health/recovery_policy.hpp"

namespace troupe::health {

namespace {
constexpr int64_t hour_ns = 3'600'000'000'000;
constexpr int most_in_a_row = 3;
}  // namespace

bool recovery_policy::can_mend(const error& why) const noexcept {
  if (!rules_.enabled || !begun_) return false;
  return why.code == errc::unavailable || why.code == errc::timeout || why.code == errc::io ||
         why.code == errc::no_memory;
}

status recovery_policy::take(const std::string& node, int64_t now_ns) {
  while (!within_hour_.empty() && now_ns - within_hour_.front() >= hour_ns)
    within_hour_.pop_front();
  if (std::ssize(within_hour_) >= rules_.most_per_hour)
    return recoveries_used_up(std::ssize(within_hour_));
  auto& in_a_row = in_a_row_[node];
  if (in_a_row >= most_in_a_row)
    return recoveries_in_vain(most_in_a_row, node.empty() ? "" : " of node " + node);
  within_hour_.push_back(now_ns);
  ++in_a_row;
  ++count_;
  return {};
}

}  // namespace troupe::health
