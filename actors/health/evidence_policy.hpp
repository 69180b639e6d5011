// What a person wants to know of a fault on Monday: the findings that stood when it was decided
// what is done about it, and the wait graph that named somebody.
//
// Pure: it is told what holds and handed the time (nanoseconds of one monotonic clock).
//
// Invariants
//   EVI-1  What has gone counts as evidence for as long as `memory_ns`: what a fault shows itself
//     by goes as soon as the run leaves its step, which is before anybody decides.
//   EVI-2  Bounded: as many findings that have gone as may stand, and the newest graph.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "actors/health/findings_policy.hpp"

namespace troupe::health {

/// A wait graph whose culprits became findings.
struct named_graph {
  std::string text, json, dot;
  int64_t asked_ns = 0;
};

class evidence_policy {
 public:
  explicit evidence_policy(int64_t memory_ns = 0) : memory_ns_(memory_ns) {}

  /// Findings that have ceased to stand.
  void cleared(const std::vector<finding>& gone, int64_t now_ns);
  /// A graph has named somebody.
  void named(named_graph graph, int64_t now_ns);
  /// The training still stands as it did when the graph was asked for.
  void still_stuck(int64_t now_ns);

  struct gone_finding {
    finding what;
    int64_t gone_ns = 0;
  };
  /// Those that have gone lately, the last first.
  std::vector<gone_finding> lately(int64_t now_ns) const;
  /// The graph that tells of now, or did lately; nullptr: none.
  const named_graph* graph(int64_t now_ns) const;

 private:
  int64_t memory_ns_;
  std::deque<gone_finding> gone_;  ///< the last first
  named_graph graph_;
  int64_t true_ns_ = -1;  ///< when the graph was true last; -1: there is none
};

}  // namespace troupe::health
