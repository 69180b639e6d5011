// Contiguous partition of layers by minimal largest cost, and ranks in node order.
#include "actors/train/placement_policy.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

namespace troupe::train {

namespace {

/// Layers a stage can take within `limit`; all equal layers, so arithmetic is enough.
int64_t capacity(double limit, double extra, double layer) {
  const double room = (limit - extra) / layer;
  return room < 1.0 - 1e-9 ? 0 : static_cast<int64_t>(room + 1e-9);
}

/// Fills stages within `limit`: earlier stages first. Empty if it does not fit.
std::vector<int64_t> fill(int64_t layers, int64_t stages, const stage_costs& c, double limit) {
  std::vector<int64_t> counts;
  int64_t left = layers;
  for (int64_t s = 0; s < stages; ++s) {
    const double extra = (s == 0 ? c.embedding : 0.0) + (s + 1 == stages ? c.head : 0.0);
    const int64_t after = stages - s - 1;  // each later stage needs one
    const int64_t take = std::min(capacity(limit, extra, c.layer), left - after);
    if (take < 1) return {};
    counts.push_back(take);
    left -= take;
  }
  return left == 0 ? counts : std::vector<int64_t>{};
}

}  // namespace

result<std::vector<layer_range>> split_layers(int64_t layers, int64_t stages,
                                              const stage_costs& costs) {
  if (stages < 1 || layers < stages)
    return error{errc::bad_config,
                 fmt::format("{} layers cannot fill {} pipeline stages", layers, stages),
                 "every stage needs a layer: lower parallel.pipeline"};
  // The optimal limit is one of the costs a stage can have.
  std::vector<double> limits;
  for (int64_t n = 1; n <= layers; ++n)
    for (double extra : {0.0, costs.embedding, costs.head, costs.embedding + costs.head})
      limits.push_back(static_cast<double>(n) * costs.layer + extra);
  std::sort(limits.begin(), limits.end());
  for (double limit : limits) {
    const auto counts = fill(layers, stages, costs, limit);
    if (counts.empty()) continue;
    std::vector<layer_range> out;
    int64_t next = 0;
    for (auto n : counts) {
      out.push_back({next, next + n});
      next += n;
    }
    return out;
  }
  return error{errc::bug, "no split of layers was found"};
}

result<std::vector<rank_place>> place_ranks(const cluster_shape& shape) {
  const auto workers = std::accumulate(shape.workers.begin(), shape.workers.end(), int64_t{0});
  const auto ranks = shape.data_ranks * shape.pipeline_ranks;
  if (workers != ranks)
    return error{errc::bad_config,
                 fmt::format("{} workers for {} data x {} pipeline ranks", workers,
                             shape.data_ranks, shape.pipeline_ranks),
                 "parallel.data * parallel.pipeline must be the number of workers"};
  TROUPE_TRY(layers, split_layers(shape.layers, shape.pipeline_ranks, shape.costs));
  std::vector<rank_place> out;
  int64_t node = 0;
  int64_t used = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    while (used == shape.workers[static_cast<size_t>(node)]) {
      ++node;
      used = 0;
    }
    ++used;
    const int64_t pipeline = rank / shape.data_ranks;
    out.push_back(
        {rank, rank % shape.data_ranks, pipeline, node, layers[static_cast<size_t>(pipeline)]});
  }
  return out;
}

}  // namespace troupe::train
