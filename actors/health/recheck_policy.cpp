// Each rank against itself, then equals against each other.
#include "actors/health/recheck_policy.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe::health {

namespace {

using results = std::span<const std::optional<recheck_result>>;

const recheck_result& of(results all, int rank) {
  return *all[static_cast<size_t>(rank)];
}

bool is_wrong_by_itself(const recheck_result& r) {
  return r.known_wrong > 0 || (!r.again.empty() && r.again != r.digests);
}

/// The ranks of one stage that can be held against each other (RCK-1), each group in order.
std::vector<std::vector<int>> groups_of_equals(results all, const std::vector<int>& replicas) {
  using what = std::pair<uint64_t, size_t>;  // the likeness; how much was told
  std::map<what, std::vector<int>> groups;
  for (const int rank : replicas) {
    const auto& r = all[static_cast<size_t>(rank)];
    if (r) groups[{r->likeness, r->digests.size()}].push_back(rank);
  }
  std::vector<std::vector<int>> out;
  for (auto& [key, ranks] : groups) out.push_back(std::move(ranks));
  return out;
}

/// Who does not have what more than half have; nothing where no value is had by so many.
std::optional<std::vector<int>> minority(results all, const std::vector<int>& equals) {
  for (const int one : equals) {
    std::vector<int> others;
    for (const int rank : equals)
      if (of(all, rank).digests != of(all, one).digests) others.push_back(rank);
    if (2 * others.size() < equals.size()) return others;
  }
  return std::nullopt;
}

/// RCK-2. Nothing where all agree.
std::optional<odd_products> compare_equals(results all, const std::vector<int>& equals) {
  odd_products out{{}, equals, of(all, equals.front()).layer, true};
  std::vector<int> voters;
  for (const int rank : equals)
    (is_wrong_by_itself(of(all, rank)) ? out.ranks : voters).push_back(rank);
  const auto outvoted = minority(all, voters);
  if (outvoted && outvoted->empty() && out.ranks.empty()) return std::nullopt;
  if (!out.ranks.empty()) return out;
  out.by_itself = false;
  if (outvoted) out.ranks = *outvoted;
  return out;
}

/// Named is who is wrong anywhere, unless somewhere nobody knows.
void add(std::optional<odd_products>& to, odd_products odd) {
  if (!to) {
    to = std::move(odd);
    return;
  }
  to->by_itself = to->by_itself && odd.by_itself;
  if (odd.ranks.empty() || to->ranks.empty())
    to->ranks.clear();
  else
    to->ranks.insert(to->ranks.end(), odd.ranks.begin(), odd.ranks.end());
}

}  // namespace

recheck_verdict compare_rechecks(const rank_grid& grid, results all) {
  recheck_verdict out;
  bool all_told = true;
  for (int pipeline = 0; pipeline < grid.pipeline; ++pipeline)
    for (int tensor = 0; tensor < grid.tensor; ++tensor) {
      std::vector<int> replicas;
      for (int data = 0; data < grid.data; ++data)
        replicas.push_back(grid.rank_of({data, tensor, pipeline}));
      for (const int rank : replicas)
        all_told = all_told && all[static_cast<size_t>(rank)].has_value();
      for (const auto& equals : groups_of_equals(all, replicas)) {
        if (equals.size() == 1 && of(all, equals.front()).again.empty())
          out.alone.push_back(equals.front());
        if (auto odd = compare_equals(all, equals)) add(out.odd, std::move(*odd));
      }
    }
  out.compared = all_told && out.alone.empty();
  return out;
}

}  // namespace troupe::health
