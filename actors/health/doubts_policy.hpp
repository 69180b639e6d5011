// What the predictor doubts: parts of ranks' steps that take longer than it expects. By what was
// learned it is evidence that stands in findings which the monitor has for reasons of its own; no
// finding is made of one. Where a part takes far longer than its node's own probes allow, or than
// it ever took there in earlier runs, the monitor finds it: no peer and no earlier step of the run
// has to tell.
//
// Pure.
//
// Invariants
//   DBT-1  Kept are those of the newest epoch that one was told of, one at most of each rank of the
//     job and part by what was learned, one by probes, and one by earlier runs.
//   DBT-2  Of a rank that is on another node by now, or in another epoch, nothing is said.
//   DBT-3  What stands by probes or earlier runs alone stands for as long as its predictor lives:
//     it alone tells of the end.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "messages/operations.hpp"

namespace troupe::health {

/// What was expected of a part of a rank's step, which took longer.
struct doubted_part {
  std::string node;
  double expected_ms = 0, least_ms = 0, most_ms = 0;  ///< within these 19 times in 20
  double seen_ms = 0;
  bool by_probes = false;  ///< expected by what the node was probed to do
  bool by_past = false;    ///< by what it took there in earlier runs alone
  uint64_t runs = 0;       ///< of these
  bool operator==(const doubted_part&) const = default;
};

class doubts_policy {
 public:
  doubts_policy() = default;
  explicit doubts_policy(int64_t ranks) : ranks_(ranks) {}

  void hear(uint32_t epoch, int64_t rank, train::pipeline_op part, doubted_part what);
  /// It is as it was expected to be: by what was learned, by the probes, or by earlier runs.
  void gone(uint32_t epoch, int64_t rank, train::pipeline_op part, bool by_probes = false,
            bool by_past = false);

  /// Those that need no peers are let go: nobody is there who would take them back (DBT-3).
  void drop_beyond();

  struct beyond_part {
    int64_t rank = 0;
    train::pipeline_op part{};
    doubted_part is;
  };
  bool has_beyond(uint32_t epoch) const;
  /// Of the epoch those by probes and by earlier runs, whose ranks are on these nodes still, by
  /// rank (DBT-2).
  std::vector<beyond_part> beyond(uint32_t epoch, std::span<const std::string> nodes) const;

  /// By what was learned. nullptr: nothing.
  const doubted_part* of(uint32_t epoch, int64_t rank, train::pipeline_op part,
                         const std::string& node) const;
  size_t count() const noexcept { return doubts_.size(); }

 private:
  /// By what it was expected.
  enum class basis : uint8_t { learned, probes, past };
  static basis basis_of(bool by_probes, bool by_past) {
    return by_past ? basis::past : by_probes ? basis::probes : basis::learned;
  }

  int64_t ranks_ = 0;
  uint32_t epoch_ = 0;
  std::map<std::tuple<int64_t, train::pipeline_op, basis>, doubted_part> doubts_;
};

}  // namespace troupe::health
