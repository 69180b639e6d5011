// A queue of losses, of which each leaves it once.
#include "actors/health/returned_policy.hpp"

#include <algorithm>

namespace troupe::health {

bool returned_policy::may_be_link(finding_name over) {
  return over == finding_name::half_open_link || over == finding_name::cut_pair ||
         over == finding_name::stuck_collective;
}

void returned_policy::lost(const std::string& node, finding_name over, int64_t now_ns) {
  std::erase_if(lost_, [&](const loss& l) { return l.node == node; });
  if (may_be_link(over) && lost_.size() < most_returned) lost_.push_back({node, now_ns});
}

std::optional<std::string> returned_policy::begin(const std::map<std::string, int64_t>& heard,
                                                  bool steps) {
  constexpr size_t fewest = 3;
  if (!steps || !under_way_.empty() || heard.size() < fewest) return std::nullopt;
  const auto back = std::find_if(lost_.begin(), lost_.end(), [&](const loss& l) {
    const auto it = heard.find(l.node);
    return it != heard.end() && it->second > l.lost_ns;
  });
  if (back == lost_.end()) return std::nullopt;
  under_way_ = back->node;
  lost_.erase(back);
  return under_way_;
}

}  // namespace troupe::health
