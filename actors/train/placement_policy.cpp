// Ranks in node order.
#include "actors/train/placement_policy.hpp"

#include <numeric>

#include <fmt/format.h>

namespace troupe::train {

result<std::vector<rank_place>> place_ranks(const cluster_shape& shape) {
  const auto workers = std::accumulate(shape.workers.begin(), shape.workers.end(), int64_t{0});
  const auto pipeline_ranks = static_cast<int64_t>(shape.stages.size());
  const auto ranks = shape.data_ranks * pipeline_ranks;
  if (workers != ranks)
    return error{errc::bad_config,
                 fmt::format("{} workers for {} data x {} pipeline ranks", workers,
                             shape.data_ranks, pipeline_ranks),
                 "parallel.data * parallel.pipeline must be the number of workers"};
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
    out.push_back({rank, rank % shape.data_ranks, pipeline, node,
                   shape.stages[static_cast<size_t>(pipeline)]});
  }
  return out;
}

}  // namespace troupe::train
