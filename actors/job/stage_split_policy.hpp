// Which layers each pipeline stage should have, and which nodes each stage, where it is known how
// long nodes take for a layer: a pipeline goes at the pace of its slowest stage.
//
// Pure and exact, by dynamic programming over the stages: what is kept of those before is how many
// layers they have and how many nodes of each kind. Replicas of a stage wait for each other, so it
// is as slow as the slowest of its nodes. Of the splits with the least slowest stage it is one
// whose stages take the least time together, since a step begins and ends with one pass through all
// of them; of equals one that leaves the nodes where they are.
//
// The work grows with the square of the layers, and with the ways in which stages can share nodes
// of different kinds: all nodes alike, or 64 of two kinds in a pipeline each, take no time; nor do
// hundreds that all differ where each keeps its stage. Beyond split_steps it is refused, not
// guessed.
//
// Invariants
//   CUT-1  Every stage has a layer, every layer one stage, in order; every node one stage.
//   CUT-2  No stage has what one of its nodes has no memory for.
//   CUT-3  No other split that holds CUT-1 and CUT-2 has a quicker slowest stage, of those that
//     leave each node its stage where nodes_stay says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::train {

/// What a node of one kind takes for the parts of a model, forward and backward of one micro-batch,
/// and what it has for them. Times are finite and at least 0.
struct node_kind {
  std::string name;
  std::vector<double> layer_s;  ///< of each layer
  double embedding_s = 0, head_s = 0;
  uint64_t memory_bytes = 0;  ///< for a rank; 0: as much as is asked
};

/// What is split over whom.
struct split_question {
  std::vector<node_kind> kinds;
  /// The kind of each node as they are now: those of the first stage first, as many for each.
  std::vector<size_t> nodes;
  std::vector<int64_t> slots;              ///< micro-batches in flight, by stage (SCH-3)
  std::vector<uint64_t> layer_bytes;       ///< of a rank, for each layer
  std::vector<uint64_t> layer_slot_bytes;  ///< the same, for each of the micro-batches in flight
  uint64_t embedding_bytes = 0, head_bytes = 0;
  std::vector<int64_t> layers_now;  ///< of each stage, to compare with; may be empty
  bool nodes_stay = false;          ///< each node has the stage that it has now
};

/// Who does what.
struct stage_split {
  std::vector<int64_t> layers;  ///< of each stage
  std::vector<size_t> nodes;    ///< of the question, those of the first stage first
  std::vector<double> stage_s;  ///< of each stage and micro-batch
  double slowest_s = 0;         ///< of them
  double now_s = 0;             ///< the slowest of layers_now; 0: unknown, or without room
  std::string reason;           ///< a sentence
};

/// What the slowest of some stages with so many layers takes, nodes as they are; 0 where one does
/// not fit its memory.
double slowest_stage_s(const split_question& question, const std::vector<int64_t>& layers);

/// Steps of the search that are made at most, a second's worth.
inline constexpr double split_steps = 1e8;

/// The split of these layers over these stages has no room on any nodes.
inline constexpr error_kind<size_t, size_t> no_split_fits{
    "no_split_fits", errc::no_memory,
    "no split of {} layers into {} stages fits the memory of the nodes",
    "use more stages, or nodes with more memory"};
/// Too many layers, nodes and kinds of nodes: the steps it would take.
inline constexpr error_kind<size_t, size_t, double, double> split_too_large{
    "split_too_large", errc::bad_config,
    "the best split of {} layers over nodes of {} kinds takes {:.2g} steps to find, expected at "
    "most {:.2g}",
    "give the layers of each stage by hand (parallel.layers)"};

/// The best split (CUT-3). There are as many stages as `slots`, at least one, at most the layers;
/// the nodes are a multiple of them. Errors: no_split_fits, split_too_large.
result<stage_split> best_split(const split_question& question);

}  // namespace troupe::train
