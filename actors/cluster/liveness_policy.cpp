// Silence turns a node suspect, then dead; a heartbeat heals the suspect, nothing heals the dead.
#include "actors/cluster/liveness_policy.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::cluster {

void arrival_times::add(int64_t interval_ns) {
  last_ns_[count_++ % last_ns_.size()] = std::max<int64_t>(0, interval_ns);
}

std::optional<double> arrival_times::phi(int64_t silent_ns) const {
  constexpr size_t enough = 8;
  constexpr double least_chance = 1e-300;  // what a double still tells from 0
  const auto n = std::min(count_, last_ns_.size());
  if (n < enough) return std::nullopt;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(last_ns_[i]);
  const double mean = sum / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) {
    const auto off = static_cast<double>(last_ns_[i]) - mean;
    squares += off * off;
  }
  const double deviation = std::max(std::sqrt(squares / static_cast<double>(n)), mean / 4);
  if (deviation <= 0) return std::nullopt;
  const double off = (static_cast<double>(silent_ns) - mean) / (deviation * std::sqrt(2.0));
  return -std::log10(std::max(least_chance, 0.5 * std::erfc(off)));
}

/// LIV-1, LIV-4.
liveness liveness_policy::judged(const node_state& n, int64_t silent_ns) const {
  constexpr double suspect_at = 8, dead_at = 12;
  constexpr int64_t times_dead_after = 3;
  const auto phi =
      detector_ == config::liveness_detector::phi ? n.came.phi(silent_ns) : std::nullopt;
  const bool dead = phi ? *phi >= dead_at || silent_ns >= times_dead_after * dead_after_ns_ : true;
  if (silent_ns >= dead_after_ns_ && dead) return liveness::dead;
  const bool suspect = phi ? *phi >= suspect_at : silent_ns >= suspect_after_ns_;
  return suspect ? liveness::suspect : liveness::alive;
}

void liveness_policy::heard(const std::string& node, int64_t now_ns) {
  auto& n = nodes_[node];
  if (n.state == liveness::dead) return;  // LIV-1
  if (n.heard) n.came.add(now_ns - n.heard_ns);
  n.heard = true;
  n.heard_ns = now_ns;
  n.state = liveness::alive;
}

void liveness_policy::link_lost(const std::string& node) {
  auto it = nodes_.find(node);
  if (it != nodes_.end()) it->second.state = liveness::dead;  // LIV-2
}

std::vector<liveness_policy::change> liveness_policy::judge(int64_t now_ns) {
  const int64_t away = judged_ns_ ? now_ns - *judged_ns_ : 0;
  judged_ns_ = now_ns;
  if (away > suspect_after_ns_)  // LIV-3
    for (auto& [name, n] : nodes_) n.heard_ns = std::min(now_ns, n.heard_ns + away);
  std::vector<change> changes;
  for (auto& [name, n] : nodes_) {
    const bool broken = n.state == liveness::dead && n.reported != liveness::dead;
    const int64_t silent = now_ns - n.heard_ns;
    if (n.state != liveness::dead) {
      n.state = judged(n, silent);
    }
    if (n.state == n.reported) continue;
    n.reported = n.state;
    changes.push_back({name, n.state, broken ? 0 : silent});
  }
  return changes;
}

}  // namespace troupe::cluster
