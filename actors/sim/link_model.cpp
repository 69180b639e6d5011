// Delays, cuts and losses.
#include "actors/sim/link_model.hpp"

#include <algorithm>

namespace troupe::sim {

namespace {

uint64_t key_of(int a, int b) {
  return uint64_t{static_cast<uint32_t>(a)} << 32 | static_cast<uint32_t>(b);
}

}  // namespace

link_model::link_model(const link_options& options, size_t nodes, rng chance)
    : options_(options), chance_(chance), delays_seed_(chance_.next()) {
  links_.reserve(4 * nodes);
}

link_model::link& link_model::between(int a, int b) {
  auto [it, fresh] = links_.try_emplace(key_of(a, b));
  if (fresh)  // of the two nodes alone: the same whichever link is used first
    it->second.delay_ns = rng(delays_seed_ ^ mix(key_of(std::min(a, b), std::max(a, b))))
                              .between(options_.least_delay_ns, options_.most_delay_ns);
  return it->second;
}

link_model::answer link_model::send(int a, int b, int64_t now_ns) {
  auto& l = between(a, b);
  if (l.broken) return {fate::lost, 0};  // SLK-3
  if (cut(a, b)) return {fate::waits, 0};
  if (loss_ > 0 && chance_.chance(loss_)) return {fate::lost, 0};
  const auto extra = static_cast<double>(l.delay_ns) * options_.jitter * chance_.unit();
  const int64_t at = now_ns + l.delay_ns + static_cast<int64_t>(extra);
  l.last_arrival_ns = std::max(at, l.last_arrival_ns + 1);  // SLK-1
  return {fate::arrives, l.last_arrival_ns};
}

void link_model::partition(std::vector<int> group_of_node) {
  groups_ = std::move(group_of_node);
}

void link_model::heal() {
  groups_.clear();
}

void link_model::mend_way(int from, int to) {
  const auto it = cut_ways_.find({from, to});
  if (it != cut_ways_.end() && --it->second == 0) cut_ways_.erase(it);
}

bool link_model::cut(int a, int b) const {
  if (!cut_ways_.empty() && cut_ways_.contains({a, b})) return true;
  if (groups_.empty()) return false;
  auto group = [&](int n) {
    const auto i = static_cast<size_t>(n);
    return i < groups_.size() ? groups_[i] : 0;
  };
  return group(a) != group(b);
}

void link_model::break_link(int a, int b) {
  between(a, b).broken = true;
  between(b, a).broken = true;
}

bool link_model::broken(int a, int b) const {
  const auto it = links_.find(key_of(a, b));
  return it != links_.end() && it->second.broken;
}

void link_model::reconnect(int a, int b) {
  between(a, b).broken = false;
  between(b, a).broken = false;
}

void link_model::renew(int node) {
  for (auto& [key, l] : links_)
    if (static_cast<int>(key >> 32) == node || static_cast<int>(static_cast<uint32_t>(key)) == node)
      l.broken = false;
}

}  // namespace troupe::sim
