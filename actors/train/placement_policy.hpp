// Who computes what: which rank runs on which node, and which layers each pipeline stage holds.
//
// A pure function of the shape of the cluster and the model, so that a plan can be shown before
// anything starts and every process agrees about it.
//
// Invariants
//   PLC-1  Every (data, pipeline) coordinate has one rank; rank = pipeline * data_ranks + data,
//     so that replicas of a stage, which exchange the most bytes, are neighbours (MegaScale
//     §3.2).
//   PLC-2  Stages hold contiguous, non-empty ranges of layers that cover the model; the largest
//     cost is minimal.
//   PLC-3  Nodes take ranks in order, each as many as it has workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::train {

/// Layers [first, last) of one pipeline stage.
struct layer_range {
  int64_t first;
  int64_t last;
  bool operator==(const layer_range&) const = default;
};

/// One rank's place.
struct rank_place {
  int64_t rank;
  int64_t data_rank;
  int64_t pipeline_rank;
  int64_t node;  ///< index into the list of nodes
  layer_range layers;
};

/// What place_ranks needs to know.
struct cluster_shape {
  std::vector<int64_t> workers;  ///< per node
  int64_t data_ranks = 1;
  std::vector<layer_range> stages;  ///< layers of each pipeline stage (gpu::split_stages)
};

/// All ranks in order (PLC-1, PLC-3). bad_config unless the workers are exactly data x pipeline.
result<std::vector<rank_place>> place_ranks(const cluster_shape& shape);

}  // namespace troupe::train
