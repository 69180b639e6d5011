// Which layers each stage has where nodes have measured what a layer takes them
// (parallel.placement): the question of stage_split_policy.hpp, made of a plan.
//
// Pure. Replicas of a stage wait for each other, so a stage is as its slowest node is. Workers of
// one host share its memory by what is planned for them, so that what fits together as planned
// fits. Measurements vary from one to the next: nodes that differ by a few percent count as alike,
// and the planned split stays where no other one is worth it.
//
// Where nodes may change places, the best order of them is searched, too: each place's ranks must
// be of one stage, and as many as any other's, so that any node can have any place. Hosts share
// their memory alike among their workers then, whatever stages these come to. Where there are too
// many orders to search, nodes stay.
//
// Invariants
//   MSL-1  No stage has layers that the memory of one of its nodes does not hold, by the bytes that
//     memory_estimate.hpp plans for the split itself.
//   MSL-2  What is less than 5 % quicker than the planned split does not replace it, nor what might
//     be as slow, so far as the paces of two nodes may be off at once.
//   MSL-3  What a place's ranks take, by which nobody with less stands in for its node, is of the
//     same bytes.
//   MSL-4  Nodes change places only where the slowest stage is as much quicker by that than by the
//     best split with each where it is; a node whose stage stays keeps its place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/job/plan.hpp"
#include "actors/job/stage_split_policy.hpp"
#include "io/base/result.hpp"

namespace troupe::train {

/// What a pace rests on: what is further down outranks what is above it.
enum class pace_source : uint8_t {
  prior,  ///< a model of machines, beside a node that is known
  probe,  ///< a layer that the node has measured
  past,   ///< whole steps of earlier runs
};

/// By how much a measured layer may be off: of the interval of its logarithm, either way.
inline constexpr double probe_half = 0.03;

/// How quick a worker of a node is, and what there is for its workers.
struct node_pace {
  double flops_s = 0;         ///< of a layer's products; 0: not known
  uint64_t memory_bytes = 0;  ///< for all workers of its host; 0: not known
  std::string host = {};      ///< whose memory it shares with its other nodes; empty: it has none
  pace_source source = pace_source::probe;
  double half = probe_half;  ///< of the 95 % interval of the pace's logarithm, either way
};

/// What a node takes for the layers and the head of a plan's model at so many FLOP a second.
node_kind kind_of_node(const job_plan& plan, std::string name, double flops_s);

/// Whether nodes keep their places.
enum class node_order : uint8_t { stays, may_change };

/// The split by what the node in each place has measured. Its `nodes`: of each place, from which
/// one its node comes. Errors: as of best_split.
result<stage_split> measured_split(const job_plan& plan, const std::vector<node_pace>& places,
                                   node_order order = node_order::stays);

/// What the ranks in each place take of their host's memory, in bytes; 0 where all of the host take
/// more than it has: they are there, and what they need is not known.
std::vector<uint64_t> bytes_of_places(const job_plan& plan, const std::vector<node_pace>& places);

}  // namespace troupe::train
