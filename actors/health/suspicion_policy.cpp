// Suspects in their order, and what was shown of them.
#include "actors/health/suspicion_policy.hpp"

#include <algorithm>
#include <utility>

namespace troupe::health {

namespace {

constexpr int64_t hour_ns = 3'600'000'000'000;

}  // namespace

bool suspicion_policy::accuses(finding_name name) {
  return name == finding_name::straggler || name == finding_name::wrong_bits ||
         name == finding_name::disk_slow || name == finding_name::disk_failing ||
         name == finding_name::frozen_process;
}

void suspicion_policy::raised(const std::vector<finding>& news, int64_t now_ns) {
  for (const auto& f : news) {
    if (f.who.node.empty() || !accuses(f.who.name)) continue;
    const bool known = std::any_of(suspects_.begin(), suspects_.end(), [&](const suspect& s) {
      return s.who.node == f.who.node;
    });
    if (!known && suspects_.size() < most_suspects) suspects_.push_back({f.who, now_ns});
  }
}

void suspicion_policy::forget(int64_t now_ns) {
  std::erase_if(suspects_, [&](const suspect& s) { return now_ns - s.since_ns > pause_ns_; });
  std::erase_if(examined_,
                [&](const auto& e) { return now_ns - e.second.begun_ns >= pause_ns_; });
  while (!hour_.empty() && now_ns - hour_.front() >= hour_ns) hour_.pop_front();
}

std::optional<subject> suspicion_policy::begin(const surroundings& now, int64_t now_ns) {
  forget(now_ns);
  if (under_way_ || hour_.size() >= most_per_hour) return {};  // SUS-1
  if (!now.steps || now.saves) return {};                      // SUS-2
  const auto it = std::find_if(suspects_.begin(), suspects_.end(), [&](const suspect& s) {
    return !now.unheard.contains(s.who.node) &&  // SUS-3
           !examined_.contains(s.who.node);      // SUS-1
  });
  if (it == suspects_.end()) return {};
  const auto who = it->who;
  suspects_.erase(it);
  examined_[who.node] = {now_ns};
  hour_.push_back(now_ns);
  under_way_ = true;
  ++begun_;
  return who;
}

void suspicion_policy::over(const subject& who, std::string text, int64_t now_ns) {
  under_way_ = false;
  forget(now_ns);
  if (const auto it = examined_.find(who.node); it != examined_.end())
    it->second.text = std::move(text);
}

std::string suspicion_policy::text_for(const subject& who, int64_t now_ns) const {
  const auto it = examined_.find(who.node);
  if (!accuses(who.name) || it == examined_.end()) return {};
  return now_ns - it->second.begun_ns < pause_ns_ ? it->second.text : std::string();
}

}  // namespace troupe::health
