// Whose link is sick, where a job stands still over ranks that wait for each other, or for somebody
// elsewhere who waits for nobody: the wait graph cannot tell the two ends of a transfer apart, nor
// whether a request has come to whom it was sent. Groups of two sum known numbers over the same
// paths: the nodes of those ranks, and nodes beside them, by the two rounds of pair_policy.hpp.
// Pure.
//
// Invariants
//   SKE-1  Pairs are tested once for each time that the job stands still. What comes of a test once
//     it moves counts for nothing.
//   SKE-2  No node is in two tests at a time: its medic has time for one.
//   SKE-3  A pair that could not be tried neither proves nor accuses anybody.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/health/pair_policy.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

class link_policy {
 public:
  using pair = pair_policy::pair;
  /// Of a circle of more nodes so many are tested.
  static constexpr size_t most_of_circle = 8;
  /// Nodes beside them that prove an end: two, so that the first round is one of two pairs.
  static constexpr size_t witnesses = 2;

  link_policy() = default;

  /// A link between two of these nodes may be it, first those of the longest wait; `others` are
  /// heard of.
  void stands_still(const std::vector<std::string>& circle, const std::vector<std::string>& others);
  void moves();

  /// Tests that begin now.
  std::vector<pair> due();
  /// What a test showed that began in this time().
  void tell(uint64_t time, const pair& who, fbs::CheckVerdict verdict);

  /// Counts the times that the job stood still.
  uint64_t time() const noexcept { return time_; }
  /// Tests are under way.
  bool is_open() const { return pairs_.has_value() && !named_; }
  /// A test is under way.
  bool is_testing() const noexcept { return !under_way_.empty(); }
  /// Once all tests are over; none: they are not, or there were none.
  const std::optional<pair_policy::outcome>& named() const noexcept { return named_; }
  /// Whether the tests that are over say how the node does.
  bool is_clear_about(const std::string& node) const;
  /// Whom a node failed with, each once, in the order of the tests.
  std::vector<std::string> failed_with(const std::string& node) const;

 private:
  explicit link_policy(uint64_t time) : time_(time) {}
  bool is_busy(const std::string& node) const;

  uint64_t time_ = 1;
  std::optional<pair_policy> pairs_;
  int round_ = 1;
  std::deque<pair> waiting_;
  std::vector<pair> under_way_, failed_;
  std::optional<pair_policy::outcome> named_;
};

}  // namespace troupe::health
