// Two rounds, as many pairs at a time as there are nodes for.
#include "actors/health/link_policy.hpp"

#include <algorithm>

namespace troupe::health {

namespace {

bool holds(const link_policy::pair& p, const std::string& node) {
  return p.first == node || p.second == node;
}

}  // namespace

void link_policy::stands_still(const std::vector<std::string>& circle,
                               const std::vector<std::string>& others) {
  if (pairs_ || circle.size() < 2) return;  // SKE-1
  std::vector<std::string> nodes(
      circle.begin(),
      circle.begin() + static_cast<std::ptrdiff_t>(std::min(circle.size(), most_of_circle)));
  const auto ends = nodes.size();
  // An even number: a round of pairs that share no node takes the time of one.
  for (const auto& o : others) {
    if (nodes.size() >= ends + witnesses && nodes.size() % 2 == 0) break;
    if (std::find(circle.begin(), circle.end(), o) == circle.end()) nodes.push_back(o);
  }
  pairs_.emplace(std::move(nodes));
  const auto first = pairs_->first_round();
  waiting_.assign(first.begin(), first.end());
}

void link_policy::moves() {
  if (!pairs_) return;
  *this = link_policy(time_ + 1);
}

bool link_policy::is_busy(const std::string& node) const {
  return std::any_of(under_way_.begin(), under_way_.end(),
                     [&](const pair& p) { return holds(p, node); });
}

std::vector<link_policy::pair> link_policy::due() {
  std::vector<pair> out;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (is_busy(it->first) || is_busy(it->second)) {  // SKE-2
      ++it;
      continue;
    }
    under_way_.push_back(*it);
    out.push_back(*it);
    it = waiting_.erase(it);
  }
  return out;
}

void link_policy::tell(uint64_t time, const pair& who, fbs::CheckVerdict verdict) {
  if (time != time_ || std::erase(under_way_, who) == 0) return;  // SKE-1
  const bool passed = verdict == fbs::CheckVerdict::ok;
  const bool tried = verdict != fbs::CheckVerdict::unknown;
  if (tried && !passed) failed_.push_back(who);
  if (tried && round_ == 1) pairs_->tell_first(who, passed);  // SKE-3
  if (tried && round_ == 2) pairs_->tell_second(who, passed);
  if (!waiting_.empty() || !under_way_.empty()) return;
  if (round_++ == 1) {
    const auto second = pairs_->second_round();
    waiting_.assign(second.begin(), second.end());
  }
  if (waiting_.empty()) named_ = pairs_->conclude();
}

bool link_policy::is_clear_about(const std::string& node) const {
  return named_ && pairs_->is_clear_about(node);
}

std::vector<std::string> link_policy::failed_with(const std::string& node) const {
  std::vector<std::string> out;
  for (const auto& p : failed_) {
    if (!holds(p, node)) continue;
    const auto& other = p.first == node ? p.second : p.first;
    if (std::find(out.begin(), out.end(), other) == out.end()) out.push_back(other);
  }
  return out;
}

}  // namespace troupe::health
