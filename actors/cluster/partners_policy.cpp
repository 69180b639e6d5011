// Pairs, entered at both ends.
#include "actors/cluster/partners_policy.hpp"

namespace troupe::cluster {

std::map<uint32_t, std::set<uint32_t>> partners_of(
    const train::job_plan& plan, const std::map<uint32_t, std::vector<uint32_t>>& loaders) {
  std::map<uint32_t, std::set<uint32_t>> out;
  const auto talk = [&](uint32_t one, uint32_t other) {
    if (one == other) return;
    out[one].insert(other);
    out[other].insert(one);
  };
  const auto node_of = [&](int rank) {
    return static_cast<uint32_t>(plan.ranks.at(static_cast<size_t>(rank)).node);
  };
  for (const auto& r : plan.ranks)
    if (const auto next = r.at.next()) talk(node_of(r.at.rank), node_of(*next));
  for (const auto& [node, ranks] : loaders)
    for (const auto rank : ranks) talk(node, node_of(static_cast<int>(rank)));
  return out;
}

}  // namespace troupe::cluster
