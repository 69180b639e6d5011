// From times that a linear programme gives to operations to clocks that exist.
//
// Each operation gets the slowest clock that ends (begins) when the programme says; what one does
// not use, the next may. Then operations are slowed one by one where slack is left, and neighbours
// are chosen anew together, one faster and the other slower, while that saves energy: in the steady
// part of a pipeline a forward and a backward share a period, and the best pair of clocks in it is
// not the pair of best clocks.
//
// Invariants
//   RND-1  No step is longer than it was asked for, but where the fastest clocks are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/power/pipeline_dag.hpp"

namespace troupe::power {

/// A clock that no other beats in both time and cost.
struct clock_choice {
  int64_t ticks = 0;
  double cost_j = 0;  ///< energy - blocking_w x time
  uint16_t row = 0;
};

/// When the programme lets an operation begin and end, in ticks.
struct node_times {
  int64_t begins, ends;
};

class clock_rounding {
 public:
  /// Of each operation of `dag` its clocks, longest first; both live as long as this.
  clock_rounding(const pipeline_dag& dag, std::vector<const std::vector<clock_choice>*> choices);

  /// Places in the choices of a step of at most `most_ticks`; from its beginning or from its end.
  const std::vector<size_t>& round(const std::vector<node_times>& times, int64_t most_ticks,
                                   bool forwards);

 private:
  using choices_of_one = std::vector<clock_choice>;

  const clock_choice& now(size_t node) const { return (*choices_[node])[chosen_[node]]; }
  size_t slowest_within(size_t node, int64_t window) const;
  void begin_at_ends(const std::vector<node_times>& times);
  void begin_at_begins(const std::vector<node_times>& times);
  void walk();
  /// Takes a choice, and says so to all whose ends and rests it moves.
  void set(size_t node, size_t choice);
  /// When what an operation waits for has ended; but for `without`.
  int64_t begins(size_t node, int without = -1) const;
  /// When it must end at the latest for what follows; but for `without`.
  int64_t must_end(size_t node, int without = -1) const;
  bool slow_some();
  bool improve_pairs();
  bool improve_pair(size_t first, int second);

  const pipeline_dag& dag_;
  std::vector<const choices_of_one*> choices_;
  int64_t most_ticks_ = 0;
  std::vector<size_t> chosen_;
  std::vector<int64_t> lasts_, ends_, rests_;
  std::vector<char> moved_;
};

}  // namespace troupe::power
