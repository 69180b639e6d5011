// The network between simulated nodes: when a message arrives, or that it does not.
//
// Pure: it is handed times and draws from a seeded generator. A link is a pair of nodes in one
// direction and behaves as a TCP connection does: its messages keep their order; while the two are
// cut off from each other they wait, and once that has taken too long the link is broken for good.
// `loss` goes beyond TCP: messages that vanish as if a proxy had died under them.
//
// Invariants
//   SLK-1  On one link messages arrive in the order they were sent, never at the same time.
//   SLK-2  A link has its own delay, so that messages of different links overtake each other.
//   SLK-3  A broken link carries nothing any more; healing does not mend it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/sim/rng.hpp"

namespace troupe::sim {

struct link_options {
  int64_t least_delay_ns = 20'000;  ///< the fastest link, one way
  int64_t most_delay_ns = 200'000;  ///< the slowest
  double jitter = 0.5;              ///< a message takes up to (1 + jitter) times its link's delay
};

class link_model {
 public:
  link_model(const link_options& options, size_t nodes, rng chance);

  enum class fate : uint8_t { arrives, waits, lost };
  struct answer {
    fate what = fate::lost;
    int64_t at_ns = 0;  ///< when it arrives
  };
  /// A message leaves now.
  answer send(int a, int b, int64_t now_ns);

  /// From now on nodes of different groups cannot reach each other.
  void partition(std::vector<int> group_of_node);
  /// All nodes reach each other again, but over broken links.
  void heal();
  /// From now on nothing of `from` reaches `to`, whatever groups they are in, until as many calls
  /// of mend_way() have taken it back.
  void cut_way(int from, int to) { ++cut_ways_[{from, to}]; }
  void mend_way(int from, int to);
  /// Whether what a sends does not reach b now.
  bool cut(int a, int b) const;

  /// Both directions (SLK-3).
  void break_link(int a, int b);
  bool broken(int a, int b) const;
  /// A new process on this node: its links are new ones.
  void renew(int node);
  /// The two are connected anew.
  void reconnect(int a, int b);

  /// The share of messages that vanish from now on; 0: none.
  void lose(double share) { loss_ = share; }

 private:
  struct link {
    int64_t delay_ns = 0;
    int64_t last_arrival_ns = 0;
    bool broken = false;
  };
  link& between(int a, int b);

  link_options options_;
  std::vector<int> groups_;  ///< empty: one group
  std::map<std::pair<int, int>, int> cut_ways_;  ///< how often each is
  rng chance_;
  uint64_t delays_seed_;
  double loss_ = 0;
  std::unordered_map<uint64_t, link> links_;
};

}  // namespace troupe::sim
