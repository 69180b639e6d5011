// Ranks in node order.
#include "actors/job/placement_policy.hpp"

#include <numeric>

#include <fmt/format.h>

namespace troupe::train {

result<std::vector<rank_place>> place_ranks(const cluster_shape& shape) {
  const auto workers = std::accumulate(shape.workers.begin(), shape.workers.end(), int64_t{0});
  if (workers != shape.grid.ranks())
    return error{errc::bad_config,
                 fmt::format("{} workers for {} data x {} pipeline ranks", workers, shape.grid.data,
                             shape.grid.pipeline),
                 "parallel.data * parallel.pipeline must be the number of workers"};
  std::vector<rank_place> out;
  int64_t node = 0;
  int64_t used = 0;
  for (grid_rank at{shape.grid}; at.rank < workers; ++at.rank) {
    while (used == shape.workers[static_cast<size_t>(node)]) {
      ++node;
      used = 0;
    }
    ++used;
    out.push_back({at, node, shape.stages[static_cast<size_t>(at.place().pipeline)]});
  }
  return out;
}

}  // namespace troupe::train
