// A vote of the replicas for each chunk.
#include "actors/health/digest_policy.hpp"

#include <algorithm>
#include <map>

namespace troupe::health {

namespace {

using columns = std::vector<std::pair<int, const std::vector<uint64_t>*>>;  // rank, its digests

/// Who does not hold what more than half hold; nothing where no value is held by so many.
std::optional<std::vector<int>> minority(const columns& replicas, size_t chunk) {
  std::map<uint64_t, size_t> votes;
  for (const auto& [rank, of] : replicas) ++votes[(*of)[chunk]];
  const auto most = std::max_element(votes.begin(), votes.end(), [](auto& a, auto& b) {
    return a.second < b.second;
  });
  if (2 * most->second <= replicas.size()) return std::nullopt;  // DGS-2
  std::vector<int> out;
  for (const auto& [rank, of] : replicas)
    if ((*of)[chunk] != most->first) out.push_back(rank);
  return out;
}

std::optional<odd_replicas> compare_stage(const columns& replicas) {
  std::optional<odd_replicas> out;
  bool known = true;
  for (size_t chunk = 0; chunk < replicas.front().second->size(); ++chunk) {
    const auto wrong = minority(replicas, chunk);
    if (wrong && wrong->empty()) continue;
    if (!out) {
      out.emplace();
      out->chunk = static_cast<int>(chunk);
      for (const auto& [rank, of] : replicas) out->differing.push_back(rank);
    }
    known = known && wrong;
    if (!wrong) continue;
    for (const int rank : *wrong)
      if (std::find(out->ranks.begin(), out->ranks.end(), rank) == out->ranks.end())
        out->ranks.push_back(rank);
  }
  if (out && !known) out->ranks.clear();
  return out;
}

}  // namespace

digest_verdict compare_digests(const rank_grid& grid,
                               std::span<const std::vector<uint64_t>> digests) {
  digest_verdict out{grid.data > 1, {}};
  for (int pipeline = 0; pipeline < grid.pipeline; ++pipeline)
    for (int tensor = 0; tensor < grid.tensor; ++tensor) {
      columns replicas;
      for (int data = 0; data < grid.data; ++data) {
        const int rank = grid.rank_of({data, tensor, pipeline});
        replicas.emplace_back(rank, &digests[static_cast<size_t>(rank)]);
      }
      const size_t chunks = replicas.front().second->size();
      const bool alike = std::all_of(replicas.begin(), replicas.end(), [&](const auto& r) {
        return r.second->size() == chunks && chunks > 0;
      });
      if (!alike) {  // DGS-1
        out.compared = false;
        continue;
      }
      auto odd = compare_stage(replicas);
      if (!odd) continue;
      if (!out.odd) {
        out.odd = std::move(odd);
        continue;
      }
      // Another stage, too: named is who is wrong anywhere, unless somewhere nobody knows.
      if (odd->ranks.empty() || out.odd->ranks.empty())
        out.odd->ranks.clear();
      else
        out.odd->ranks.insert(out.odd->ranks.end(), odd->ranks.begin(), odd->ranks.end());
    }
  return out;
}

}  // namespace troupe::health
