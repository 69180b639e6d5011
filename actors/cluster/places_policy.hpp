// Which node is in which place of the plan. A place is what the plan calls a node: some ranks, with
// the numbers that they compute by. The node in it may change.
//
// Pure: it is handed which nodes live and what they have, and answers with who stands in for whom.
//
// Invariants
//   PLA-1  A place has one node, a node at most one place. A place whose node lives keeps it, but
//     for PLA-7.
//   PLA-2  What a place asks for (threads, devices) is fixed with its first ranks, whoever is in it
//     later: the losses are the same to the bit.
//   PLA-3  In the place of a lost node comes the first, in the order in which they are handed, of
//     the nodes that live, have no place and have what the place asks for. Where there is none, the
//     place waits for its node.
//   PLA-4  A GPU is given to one place: what a spare takes, the other spares of its host lack.
//   PLA-5  Places are used from the first on; the nodes of those that are not are spares. No node
//     has two places, used or not, and what a place asks for stays while it is not used.
//   PLA-6  Where it is known what memory the ranks of a place take, no node comes into it that has
//     less for them; what a spare takes, the other spares of its host lack.
//   PLA-7  Before its ranks have computed anything nodes may change places among each other: what
//     each place asks for is fixed anew then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::cluster {

/// What a place asks of the node in it.
struct place_needs {
  int64_t workers = 1;
  int64_t threads = 1;    ///< of each worker
  int64_t cores = 1;      ///< of the node
  int64_t gpus = 0;       ///< that nobody else uses; 0: it computes on the host
  std::string cpu_model;  ///< that it began with
  uint64_t memory_bytes = 0;  ///< for its ranks; 0: not known, and not asked for
};

/// A node that lives and has no place.
struct spare_node {
  uint32_t node = 0;  ///< its index
  std::string name;
  int64_t workers = 1;
  int64_t cores = 1;
  int64_t gpus = 0;  ///< of its host, that nobody else uses
  std::string cpu_model;
  std::string host;  ///< the same for all nodes of a machine
  uint64_t memory_bytes = 0;  ///< of its host, that no ranks take; 0: not known
};

/// A node comes into a place.
struct takeover {
  uint32_t place = 0, from = 0, to = 0;
  bool other_cpu = false;  ///< its processor is another: kernels and their rounding may differ
};

/// A spare that could not stand in, and why, a sentence without its name.
struct passed_over {
  std::string spare;
  uint32_t place = 0;
  std::string why;
};

/// What became of the places without a node.
struct filling {
  std::vector<takeover> taken;
  std::vector<passed_over> passed;
};

class places_policy {
 public:
  places_policy() = default;
  /// So many places, each with the node of its number.
  explicit places_policy(size_t places);
  /// Places that were fixed before: the node in each, and what it asks for.
  places_policy(std::vector<uint32_t> nodes, std::vector<place_needs> needs)
      : nodes_(std::move(nodes)), needs_(std::move(needs)), used_(nodes_.size()), fixed_(true) {}

  /// Those that are used; all at first.
  size_t size() const noexcept { return used_; }
  /// The first so many are used from now on (PLA-5).
  void use(size_t places) { used_ = std::min(places, nodes_.size()); }
  /// Those that are not used, too: node_of and needs_of know them.
  size_t all() const noexcept { return nodes_.size(); }
  uint32_t node_of(uint32_t place) const { return nodes_.at(place); }
  std::optional<uint32_t> place_of(uint32_t node) const;

  /// PLA-2: what the ranks of a place were given. Later calls change nothing.
  void fix(uint32_t place, place_needs needs);
  bool is_fixed() const noexcept { return fixed_; }
  /// PLA-7: into each place that is used comes the node of the place `from` says, each of these
  /// once. They are to be fixed anew.
  void move(const std::vector<size_t>& from);
  /// PLA-6: its layers are settled.
  void takes_memory(uint32_t place, uint64_t bytes) { needs_.at(place).memory_bytes = bytes; }
  const place_needs& needs_of(uint32_t place) const { return needs_.at(place); }

  /// Whether one of them could stand in for the node of a place (PLA-3): which.
  std::optional<spare_node> candidate(uint32_t place, const std::vector<spare_node>& spares) const;

  /// Nodes without a place come into the places of those that are lost (PLA-1, PLA-3).
  filling fill(const std::vector<uint32_t>& lost, std::vector<spare_node> spares);

 private:
  std::vector<uint32_t> nodes_;  ///< by place
  std::vector<place_needs> needs_;
  size_t used_ = 0;
  bool fixed_ = false;
};

}  // namespace troupe::cluster
