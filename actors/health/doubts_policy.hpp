// What the predictor doubts: parts of ranks' steps that take longer than it expects. Evidence that
// stands in findings which the monitor has for reasons of its own; no finding is made of one.
//
// Pure.
//
// Invariants
//   DBT-1  Kept are those of the newest epoch that one was told of, one at most of each rank of the
//     job and part.
//   DBT-2  Of a rank that is on another node by now, or in another epoch, nothing is said.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "messages/operations.hpp"

namespace troupe::health {

/// What was expected of a part of a rank's step, which took longer.
struct doubted_part {
  std::string node;
  double expected_ms = 0, least_ms = 0, most_ms = 0;  ///< within these 19 times in 20
  bool operator==(const doubted_part&) const = default;
};

class doubts_policy {
 public:
  doubts_policy() = default;
  explicit doubts_policy(int64_t ranks) : ranks_(ranks) {}

  void hear(uint32_t epoch, int64_t rank, train::pipeline_op part, doubted_part what);
  /// It is as it was expected to be.
  void gone(uint32_t epoch, int64_t rank, train::pipeline_op part);

  /// nullptr: nothing.
  const doubted_part* of(uint32_t epoch, int64_t rank, train::pipeline_op part,
                         const std::string& node) const;
  size_t count() const noexcept { return doubts_.size(); }

 private:
  int64_t ranks_ = 0;
  uint32_t epoch_ = 0;
  std::map<std::pair<int64_t, train::pipeline_op>, doubted_part> doubts_;
};

}  // namespace troupe::health
