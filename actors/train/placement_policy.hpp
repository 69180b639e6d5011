// Who computes what: which rank runs on which node, and which layers each pipeline stage holds.
//
// A pure function of the shape of the cluster and the model, so that a plan can be shown before
// anything starts and every process agrees about it.
//
// Invariants
//   PLC-1  Every (data, pipeline) coordinate has one rank; rank = pipeline * data_ranks + data, so
//   that replicas
//          of a stage, which exchange the most bytes, are neighbours (MegaScale §3.2).
//   PLC-2  Stages hold contiguous, non-empty ranges of layers that cover the model; the largest
//   cost is minimal. PLC-3  Nodes take ranks in order, each as many as it has workers.
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

/// Relative costs that decide the split. Unit: any, the same for all.
struct stage_costs {
  double layer = 1.0;      ///< one transformer layer
  double embedding = 0.0;  ///< what the first stage does besides
  double head = 0.0;       ///< what the last stage does besides
};

/// Splits `layers` over `stages` so that the most expensive stage is as cheap as can be (PLC-2);
/// among equal splits the one with fewer layers at the end. bad_config if there are fewer layers
/// than stages.
result<std::vector<layer_range>> split_layers(int64_t layers, int64_t stages,
                                              const stage_costs& costs);

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
  int64_t pipeline_ranks = 1;
  int64_t layers = 1;
  stage_costs costs;
};

/// All ranks in order (PLC-1, PLC-3). bad_config unless the workers are exactly data x pipeline.
result<std::vector<rank_place>> place_ranks(const cluster_shape& shape);

}  // namespace troupe::train
