// The operations of one step of a pipeline and what each waits for: the order of 1F1B within a
// stage, activations to the next stage, gradients to the one before. What a step lasts follows from
// how long each operation takes.
//
// Invariants
//   DAG-1  Operations are numbered so that each comes after all it waits for; the first is the
//     forward of micro-batch 0 at stage 0, the last the backward of the last one there.
//   DAG-2  An operation waits for at most one of its stage and one of a neighbour, and at most as
//     many wait for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "actors/power/clock_profile.hpp"

namespace troupe::power {

struct pipeline_node {
  int stage = 0;
  instruction which = instruction::forward;
  int micro_batch = 0;
  /// Numbers of operations, -1: none. Of its own stage, and of a neighbour.
  int before_here = -1, before_there = -1;
  int after_here = -1, after_there = -1;
};

class pipeline_dag {
 public:
  /// Both >= 1.
  pipeline_dag(int stages, int micro_batches);

  int stages() const noexcept { return stages_; }
  int micro_batches() const noexcept { return micro_batches_; }
  const std::vector<pipeline_node>& nodes() const noexcept { return nodes_; }

  /// When each operation ends, by its number, where each begins as soon as it can.
  template <class T>
  std::vector<T> ends(const std::vector<T>& lasting) const {
    std::vector<T> out(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i)
      out[i] = latest_of(out, nodes_[i].before_here, nodes_[i].before_there) + lasting[i];
    return out;
  }
  /// How long the step goes on after each, where nothing waits longer than it must.
  template <class T>
  std::vector<T> rests(const std::vector<T>& lasting) const {
    std::vector<T> out(nodes_.size());
    for (size_t i = nodes_.size(); i-- > 0;) out[i] = rest_of(out, lasting, i);
    return out;
  }

  /// The latest of two ends; 0 where there is none.
  template <class T>
  static T latest_of(const std::vector<T>& ends, int a, int b) {
    return std::max(a < 0 ? T{} : ends[static_cast<size_t>(a)],
                    b < 0 ? T{} : ends[static_cast<size_t>(b)]);
  }
  /// What follows operation `i`.
  template <class T>
  T rest_of(const std::vector<T>& rests, const std::vector<T>& lasting, size_t i) const {
    T out{};
    for (const int next : {nodes_[i].after_here, nodes_[i].after_there})
      if (next >= 0)
        out = std::max(out, rests[static_cast<size_t>(next)] + lasting[static_cast<size_t>(next)]);
    return out;
  }

 private:
  int stages_;
  int micro_batches_;
  std::vector<pipeline_node> nodes_;
};

}  // namespace troupe::power
