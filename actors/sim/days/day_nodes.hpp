// The places of a large job, the nodes in them and the spares: who stands in for whom, who is sick,
// with how many replicas it goes on.
//
// By the product's own rules, each where it is decided: evictions_policy (twice within an hour, who
// was lost comes last), replicas_policy (how many replicas share the batch, how many places those
// need), places_policy's order. Pure; times in nanoseconds of the simulation.
//
// Invariants
//   DYN-1  A place has one node, a node at most one place; places are used from the first on.
//   DYN-2  A node that is lost joins again, with what is wrong with it: as a spare where another
//     has its place. It is well once it was repaired.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/cluster/evictions_policy.hpp"
#include "io/config/job.hpp"

namespace troupe::sim {

/// What stays wrong with a host.
enum class sickness : uint8_t {
  none,
  slow,    ///< it computes longer
  disk,    ///< reads of it fail, of no node by name
  link,    ///< groups with it do not connect, of no node by name
  device,  ///< operations of it fail
};

class day_nodes {
 public:
  /// `job`: its nodes without spares, its replicas and its batch.
  day_nodes(const config::job& job, int spares);

  /// Those that are used.
  int places() const noexcept { return used_; }
  int64_t replicas() const noexcept { return replicas_; }
  bool has_all_replicas() const noexcept { return replicas_ == counts_.front().replicas; }
  int node_in(int place) const { return in_[static_cast<size_t>(place)]; }
  /// Of a node; -1: none that is used.
  int place_of(int node) const;
  /// Nodes that have joined and have no place.
  int spares(int64_t now_ns) const;

  /// Until it is repaired, or replaced by a person.
  void fall_sick(int node, sickness what, int64_t until_ns);
  /// The first used place whose node is so; -1: none.
  int place_of_sick(sickness what, int64_t now_ns) const;

  /// The node of a place is lost: it joins again at `joins_ns`, and at `later_ns` where another
  /// has its place then.
  void lose(int place, int64_t joins_ns, int64_t later_ns, int64_t now_ns);
  /// Spares come into the places of those that are lost; who was lost twice within an hour and is
  /// replaced so is away until `back_ns`. Counted: spares, and who was evicted and is well.
  void fill(int64_t back_ns, int64_t now_ns);
  uint64_t spares_used() const noexcept { return spares_used_; }
  uint64_t healthy_evicted() const noexcept { return healthy_evicted_; }

  /// When the last node of the places that are used is there.
  int64_t whole_at_ns() const;
  /// When the next node joins after now; `never_ns`: none will.
  int64_t next_join_ns(int64_t now_ns, int64_t never_ns) const;
  /// The largest smaller number of replicas that has nodes; false: there is none. For as many nodes
  /// as are missing then other hosts come at `hosts_ns`.
  bool use_fewer(int64_t back_ns, int64_t hosts_ns, int64_t now_ns);
  /// The largest greater one, where there is any.
  bool may_grow(int64_t now_ns) const;
  void use_more(int64_t back_ns, int64_t now_ns);

  /// A person has seen to it: all places have nodes that are well.
  void mend(int64_t now_ns);

 private:
  struct count {
    int64_t replicas;
    int places;
  };
  struct node {
    int place = -1;
    int64_t joined_ns = 0, later_ns = 0;
    sickness what = sickness::none;
    int64_t sick_until_ns = 0;
  };
  node& at(int who) { return all_[static_cast<size_t>(who)]; }
  const node& at(int who) const { return all_[static_cast<size_t>(who)]; }
  bool is_free(const node& n) const { return n.place < 0 || n.place >= used_; }
  bool is_sick(const node& n, int64_t now_ns) const {
    return n.what != sickness::none && n.sick_until_ns > now_ns;
  }
  int nodes_there(int64_t now_ns) const;
  int candidate(int64_t now_ns) const;
  void put(int who, int place);
  void evict_if_unreliable(int who, int64_t back_ns, int64_t now_ns);
  void use(const count& c, int64_t back_ns, int64_t now_ns);

  std::vector<count> counts_;  ///< all first
  std::vector<int> in_;        ///< by place
  std::vector<node> all_;      ///< places' first, then spares
  int used_ = 0;
  int64_t replicas_ = 0;
  cluster::evictions_policy evictions_;
  uint64_t spares_used_ = 0, healthy_evicted_ = 0;
};

}  // namespace troupe::sim
