// Whose links are tested once its node has come back: one that was lost over a link is started
// again and is a spare from then on, and what was wrong may be with its host still. Pure: it is
// told what is lost and who is heard (nanoseconds of one monotonic clock).
//
// Invariants
//   RTN-1  A node's links are tested for each such loss, when it has been heard again, and there
//     are two others to test them with: until the tests say something of it, at most most_tests
//     times, with a pause in between. Then it is given up, which is told.
//   RTN-2  One node's at a time, and only while steps are made: who holds up a stuck job is looked
//     for by the same medics (link_policy.hpp).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "io/base/findings.hpp"

namespace troupe::health {

class returned_policy {
 public:
  static constexpr size_t most_returned = 64;  ///< further ones are not tested
  static constexpr int most_tests = 5;         ///< of a node that they say nothing of
  static constexpr int64_t usual_pause_s = 20;  ///< longer than an examination or a group's test

  explicit returned_policy(int64_t pause_ns = 0) : pause_ns_(pause_ns) {}

  /// Whether a node that is lost over a finding of this name may have a sick link.
  static bool may_be_link(finding_name over);

  void lost(const std::string& node, finding_name over, int64_t now_ns);
  /// Whose links are tested now; they are until over(). `heard`: when a node was heard last, of
  /// those that live.
  std::optional<std::string> begin(const std::map<std::string, int64_t>& heard, bool steps,
                                   int64_t now_ns);
  /// Whose are; empty: nobody's.
  const std::string& under_way() const noexcept { return under_way_.node; }
  /// The tests are over. False: they do not say whether its links are well, and are not made again.
  bool over(bool clear, int64_t now_ns);

 private:
  struct loss {
    std::string node;
    int64_t lost_ns = 0;
    int tests = 0;        ///< that were begun
    int64_t next_ns = 0;  ///< not before
  };
  int64_t pause_ns_;
  std::deque<loss> lost_;    ///< one of a node, in the order in which their turns come
  loss under_way_;           ///< without a name: none
  bool lost_again_ = false;  ///< the node whose links are tested, meanwhile
};

}  // namespace troupe::health
