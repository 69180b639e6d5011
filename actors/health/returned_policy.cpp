// A queue of losses: the first that may be tested leaves it, and stands at its end again where the
// tests say nothing.
#include "actors/health/returned_policy.hpp"

#include <algorithm>
#include <utility>

namespace troupe::health {

bool returned_policy::may_be_link(finding_name over) {
  return over == finding_name::half_open_link || over == finding_name::cut_pair ||
         over == finding_name::stuck_collective;
}

void returned_policy::lost(const std::string& node, finding_name over, int64_t now_ns) {
  std::erase_if(lost_, [&](const loss& l) { return l.node == node; });
  lost_again_ = lost_again_ || node == under_way_.node;
  if (may_be_link(over) && lost_.size() < most_returned) lost_.push_back({node, now_ns});
}

std::optional<std::string> returned_policy::begin(const std::map<std::string, int64_t>& heard,
                                                  bool steps, int64_t now_ns) {
  constexpr size_t fewest = 3;
  if (!steps || !under_way_.node.empty() || heard.size() < fewest) return std::nullopt;
  const auto back = std::find_if(lost_.begin(), lost_.end(), [&](const loss& l) {
    const auto it = heard.find(l.node);
    return it != heard.end() && it->second > l.lost_ns && now_ns >= l.next_ns;
  });
  if (back == lost_.end()) return std::nullopt;
  under_way_ = std::move(*back);
  ++under_way_.tests;
  lost_again_ = false;
  lost_.erase(back);
  return under_way_.node;
}

bool returned_policy::over(bool clear, int64_t now_ns) {
  auto tested = std::exchange(under_way_, {});
  if (clear || lost_again_ || tested.node.empty()) return true;
  if (tested.tests >= most_tests || lost_.size() >= most_returned) return false;
  tested.next_ns = now_ns + pause_ns_;
  lost_.push_back(std::move(tested));
  return true;
}

}  // namespace troupe::health
