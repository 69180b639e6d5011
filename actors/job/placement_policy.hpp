// Who computes what: which rank runs on which node, and which layers each pipeline stage holds.
//
// A pure function of the shape of the cluster and the model, so that a plan can be shown before
// anything starts and every process agrees about it.
//
// Invariants
//   PLC-1  Every place of the grid has one rank, by the grid's numbers (io/base/rank_grid.hpp).
//   PLC-2  Stages hold contiguous, non-empty ranges of layers that cover the model; the largest
//     cost is minimal.
//   PLC-3  Nodes take ranks in order, each as many as it has workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/rank_grid.hpp"
#include "io/base/result.hpp"

namespace troupe::train {

/// Layers [first, last) of one pipeline stage.
struct layer_range {
  int64_t first;
  int64_t last;
  bool operator==(const layer_range&) const = default;
};

/// One rank, where it computes and what.
struct rank_place {
  grid_rank at;
  int64_t node;  ///< index into the list of nodes
  layer_range layers;
};

/// What place_ranks needs to know.
struct cluster_shape {
  std::vector<int64_t> workers;  ///< per node
  rank_grid grid;
  std::vector<layer_range> stages;  ///< layers of each pipeline stage (gpu::split_stages)
};

/// All ranks in order (PLC-1, PLC-3). bad_config unless the workers are exactly the grid's ranks.
result<std::vector<rank_place>> place_ranks(const cluster_shape& shape);

}  // namespace troupe::train
