// Counts and times, by node.
#include "actors/cluster/launches_policy.hpp"

#include <utility>

namespace troupe::cluster {

launches_policy::verdict launches_policy::order(const std::string& node, bool needed,
                                                int64_t now_ns) {
  auto& c = counts_[node];
  if (!needed && now_ns - c.since_ns > forgotten_ns_) c.ordered = 0;
  c.on_its_way = c.doubted = false;
  if (c.ordered >= most_launches)
    return std::exchange(c.alone, true) ? verdict::alone : verdict::used_up;
  if (c.ordered++ == 0) c.since_ns = now_ns;
  c.on_its_way = true;  // LAU-2
  c.alone = false;
  return verdict::start;
}

bool launches_policy::on_its_way(const std::string& node) const {
  const auto it = counts_.find(node);
  return it != counts_.end() && it->second.on_its_way;
}

void launches_policy::joined(const std::string& node) {
  auto& c = counts_[node];
  c.on_its_way = c.alone = c.untold = c.doubted = false;
}

void launches_policy::forget(const std::string& node) {
  auto& c = counts_[node];
  c = {.untold = c.untold, .how = {}};
}

bool launches_policy::ended_unnamed(const std::string& node, const std::string& how,
                                    int64_t now_ns) {
  auto& c = counts_[node];
  const bool of_either = std::exchange(c.untold, false) && c.on_its_way;
  if (!of_either) return true;
  c.doubted = true;
  c.word_ns = now_ns;
  c.how = how;
  return false;
}

std::vector<launches_policy::late_end> launches_policy::late_ends(int64_t now_ns) {
  std::vector<late_end> out;
  for (auto& [node, c] : counts_)
    if (c.doubted && now_ns - c.word_ns >= doubt_ns_) {
      c.doubted = false;
      out.push_back({node, c.how});
    }
  return out;
}

std::vector<std::string> launches_policy::due(int64_t now_ns) {
  std::vector<std::string> out;
  for (auto& [node, c] : counts_)
    if (c.alone && now_ns - c.since_ns > forgotten_ns_) {
      c.alone = false;
      out.push_back(node);
    }
  return out;
}

}  // namespace troupe::cluster
