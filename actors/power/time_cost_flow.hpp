// The least cost of a project at every length: the time-cost trade-off of a network of activities,
// each of which may be made shorter at a price that rises (a convex piecewise linear cost).
//
// Kelley (1961) and Fulkerson (1961) saw that the dual of this linear programme is a flow: what a
// second less of the whole is worth is the flow's value, an activity carries as much as its next
// second costs, and the project's length is the longest way that still takes flow. So the curve is
// found from its slow end by raising the flow along longest ways, exactly: every round ends at the
// next corner of the curve, not a unit of time further as in Phillips and Dessouky (1977). Lengths
// and flows are integers: no rounding decides what is critical.
//
// Invariants
//   TCF-1  times() always satisfies every activity at its shortest length at least, and is an exact
//     optimum among all times that end as early.
//   TCF-2  Each round ends strictly earlier than the one before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace troupe::power {

class time_cost_flow {
 public:
  static constexpr int64_t no_bound = std::numeric_limits<int64_t>::max() / 4;

  /// A corner of an activity's cost: at `length` it may carry flow below `until`, which is what a
  /// tick less than `length` costs. Longest first, `until` rising, no_bound at the shortest.
  struct corner {
    int64_t length = 0;
    int64_t until = no_bound;
  };

  /// Nodes are 0 to nodes - 1: the project goes from the first to the last.
  explicit time_cost_flow(size_t nodes) : times_(nodes) {}

  /// An activity from one node to a later one; `corners` live as long as this. All are added before
  /// the first call of start().
  void add(size_t from, size_t to, const std::vector<corner>& corners);

  /// Everything at its longest.
  void start();
  /// The next corner of the curve; false: the project is as short as it can be.
  bool shorten();

  /// When each node is reached, in ticks.
  const std::vector<int64_t>& times() const noexcept { return times_; }

 private:
  struct activity {
    size_t from, to;
    const std::vector<corner>* corners;
    size_t piece = 0;  ///< the first corner that takes more flow
    int64_t flow = 0;
  };
  /// One direction of an activity, as a node sees it.
  struct way {
    size_t activity;
    bool forward;
  };
  struct step {
    size_t to;
    int64_t slack;  ///< 0: critical
    int64_t room;   ///< 0: it takes no flow
  };

  step step_of(const way& w) const;
  void push(const way& w, int64_t flow);
  /// As much flow as critical ways take; false: without end.
  bool saturate();
  bool label();
  /// One way along labels; 0: there is none left.
  int64_t augment();
  /// Moves every node as far as the slack of ways to it allows; false: nothing is held back.
  bool move_times();

  std::vector<int64_t> times_;
  std::vector<activity> activities_;
  std::vector<std::vector<way>> ways_;  ///< by node
  std::vector<int> label_;
  std::vector<size_t> tried_;
  std::vector<way> path_;
  std::vector<int64_t> distance_;
};

}  // namespace troupe::power
