// A shift that serves all, else each by itself.
#include "actors/train/keeper_policy.hpp"

#include <algorithm>
#include <cassert>
#include <array>
#include <climits>
#include <cstdlib>

namespace troupe::train {

namespace {

/// What is wrong with a keeper, the worst first: compared one after the other.
using flaws = std::array<int64_t, 3>;

flaws flaws_of(const rank_grid& grid, const std::vector<rank_home>& homes, int rank, int keeper) {
  const auto &own = homes[static_cast<size_t>(rank)], &other = homes[static_cast<size_t>(keeper)];
  const auto a = grid.place_of(rank), b = grid.place_of(keeper);
  return {own.node == other.node, own.host == other.host,
          (a.pipeline == b.pipeline) + (a.data == b.data)};
}

/// The rank so far away along both axes, round their ends: a different one for each.
int shifted(const rank_grid& grid, int rank, int by) {
  auto place = grid.place_of(rank);
  place.data = (place.data + by % grid.data) % grid.data;
  place.pipeline = (place.pipeline + by / grid.data) % grid.pipeline;
  return grid.rank_of(place);
}

/// KPR-3: all ranks' flaws of one shift, as soon as they are no better than `best` nothing more.
flaws flaws_of_shift(const rank_grid& grid, const std::vector<rank_home>& homes, int by,
                     const flaws& best) {
  flaws sum{};
  const auto ranks = static_cast<int>(homes.size());
  for (int r = 0; r < ranks && sum < best; ++r) {
    const auto one = flaws_of(grid, homes, r, shifted(grid, r, by));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
  }
  return sum;
}

/// KPR-1 where no shift gives it to everybody: the least flawed, then who keeps least.
int best_for(const rank_grid& grid, const std::vector<rank_home>& homes, int rank,
             const std::vector<int>& load) {
  int best = -1;
  std::pair<flaws, int> least{{INT64_MAX, 0, 0}, 0};
  for (int k = 0; k < static_cast<int>(homes.size()); ++k) {
    if (homes[static_cast<size_t>(k)].node == homes[static_cast<size_t>(rank)].node) continue;
    const std::pair all{flaws_of(grid, homes, rank, k), load[static_cast<size_t>(k)]};
    if (best < 0 || all < least) {
      best = k;
      least = all;
    }
  }
  return best;
}

}  // namespace

std::vector<int> keepers_of(const rank_grid& grid, const std::vector<rank_home>& homes) {
  const auto ranks = static_cast<int>(homes.size());
  if (ranks == 0 || std::all_of(homes.begin(), homes.end(),
                                [&](const auto& h) { return h.node == homes.front().node; }))
    return {};
  int by = 1;
  flaws best{INT64_MAX, 0, 0};
  for (int shift = 1; shift < ranks && best != flaws{}; ++shift)
    if (const auto f = flaws_of_shift(grid, homes, shift, best); f < best) {
      best = f;
      by = shift;
    }
  std::vector<int> out(homes.size()), load(homes.size());
  for (int r = 0; r < ranks; ++r) {
    const bool fits = best[0] == 0;
    const int keeper = fits ? shifted(grid, r, by) : best_for(grid, homes, r, load);
    out[static_cast<size_t>(r)] = keeper;
    ++load[static_cast<size_t>(keeper)];
  }
  return out;
}

std::vector<int> keepers_of(const config::job& job) {
  if (job.checkpoint.memory.every == 0) return {};
  std::vector<rank_home> homes;
  for (int64_t n = 0; n < job.cluster.places(); ++n) {
    const auto& node = job.cluster.node[static_cast<size_t>(n)];
    for (int64_t w = 0; w < node.workers; ++w) homes.push_back({n, node.host});
  }
  assert(std::ssize(homes) == job.grid().ranks());
  return keepers_of(job.grid(), homes);
}

std::vector<int> kept_by(const std::vector<int>& keepers, int rank) {
  std::vector<int> out;
  for (size_t r = 0; r < keepers.size(); ++r)
    if (keepers[r] == rank) out.push_back(static_cast<int>(r));
  return out;
}

bool on_one_host(const config::job& job) {
  if (job.cluster.launch == config::launch_mode::external) return false;
  const auto& nodes = job.cluster.node;
  return std::all_of(nodes.begin(), nodes.begin() + job.cluster.places(),
                     [&](const auto& n) { return n.host == nodes.front().host; });
}

}  // namespace troupe::train
