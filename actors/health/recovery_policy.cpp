// Rules and budget.
#include "actors/health/recovery_policy.hpp"

namespace troupe::health {

namespace {
constexpr int64_t second_ns = 1'000'000'000, hour_ns = 3600 * second_ns;
constexpr int most_in_a_row = 3;
}  // namespace

bool recovery_policy::can_mend(const error& why) const noexcept {
  if (!rules_.enabled || !begun_) return false;
  return why.code == errc::unavailable || why.code == errc::timeout || why.code == errc::io ||
         why.code == errc::no_memory;
}

/// RCV-5, RCV-6.
size_t recovery_policy::rule_for(finding_name finding, int64_t now_ns) {
  for (size_t i = 0; i < rules_.rule.size(); ++i) {
    const auto& rule = rules_.rule[i];
    if (rule.finding != finding) continue;
    auto& applied = applied_[i];
    while (!applied.empty() && now_ns - applied.front() >= rule.within_s * second_ns)
      applied.pop_front();
    if (rule.times == 0 || std::ssize(applied) < rule.times) return i;
  }
  return std::string_view::npos;
}

/// RCV-1, RCV-4.
status recovery_policy::spend(const std::string& node, int64_t now_ns) {
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

result<recovery_decision> recovery_policy::take(finding_name finding, const std::string& node,
                                                int64_t now_ns) {
  const auto at = rule_for(finding, now_ns);
  if (at == std::string_view::npos) return rules_used_up(facts_of(finding).name);
  const auto& rule = rules_.rule[at];
  if (rule.action != config::recovery_action::end) TROUPE_CHECK(spend(node, now_ns));
  auto& applied = applied_[at];
  if (rule.times > 0) applied.push_back(now_ns);
  return recovery_decision{rule.action, at + 1,
                           rule.times == 0 ? -1 : rule.times - std::ssize(applied)};
}

recoveries_made recovery_policy::made() const {
  recoveries_made out{count_, {within_hour_.begin(), within_hour_.end()}, {}};
  for (const auto& [rule, times] : applied_)
    if (!times.empty()) out.applied_ns[rule].assign(times.begin(), times.end());
  return out;
}

void recovery_policy::remember(const recoveries_made& made) {
  count_ = made.begun;
  within_hour_.assign(made.within_hour_ns.begin(), made.within_hour_ns.end());
  for (const auto& [rule, times] : made.applied_ns)
    applied_[rule].assign(times.begin(), times.end());
}

}  // namespace troupe::health
