// Silence turns a node suspect, then dead; a heartbeat heals the suspect, nothing heals the dead.
#include "actors/cluster/liveness_policy.hpp"

#include <algorithm>

namespace troupe::cluster {

void liveness_policy::heard(const std::string& node, int64_t now_ns) {
  auto& n = nodes_[node];
  if (n.state == liveness::dead) return;  // LIV-1
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
      n.state = silent >= dead_after_ns_      ? liveness::dead
                : silent >= suspect_after_ns_ ? liveness::suspect
                                              : liveness::alive;
    }
    if (n.state == n.reported) continue;
    n.reported = n.state;
    changes.push_back({name, n.state, broken ? 0 : silent});
  }
  return changes;
}

}  // namespace troupe::cluster
