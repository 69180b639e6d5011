// Names, reasons and times.
#include "actors/cluster/evictions_policy.hpp"

namespace troupe::cluster {

namespace {
constexpr int64_t hour_ns = 3'600'000'000'000;
constexpr size_t losses_to_evict = 2;
}  // namespace

void evictions_policy::note_loss(const std::string& node, int64_t now_ns) {
  auto& at = losses_[node];
  at.push_back(now_ns);
  if (at.size() > losses_to_evict) at.pop_front();
}

bool evictions_policy::is_unreliable(const std::string& node, int64_t now_ns) const {
  const auto it = losses_.find(node);
  return it != losses_.end() && it->second.size() == losses_to_evict &&
         now_ns - it->second.front() < hour_ns;
}

std::optional<int64_t> evictions_policy::last_loss_ns(const std::string& node) const {
  const auto it = losses_.find(node);
  return it == losses_.end() ? std::nullopt : std::optional(it->second.back());
}

bool evictions_policy::admit(const std::string& node) {
  losses_.erase(node);
  return evicted_.erase(node) > 0;
}

std::string evictions_policy::why(const std::string& node) const {
  const auto it = evicted_.find(node);
  return it == evicted_.end() ? std::string() : it->second;
}

std::vector<std::string> evictions_policy::all() const {
  std::vector<std::string> out;
  for (const auto& [node, why] : evicted_) out.push_back(node);
  return out;
}

}  // namespace troupe::cluster
