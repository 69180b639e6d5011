// Whose links are tested once its node has come back: one that was lost over a link is started
// again and is a spare from then on, and what was wrong may be with its host still. Pure: it is
// told what is lost and who is heard (nanoseconds of one monotonic clock).
//
// Invariants
//   RTN-1  A node's links are tested once for each such loss, when it has been heard again, and
//     there are two others to test them with.
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

  /// Whether a node that is lost over a finding of this name may have a sick link.
  static bool may_be_link(finding_name over);

  void lost(const std::string& node, finding_name over, int64_t now_ns);
  /// Whose links are tested now; they are until over(). `heard`: when a node was heard last, of
  /// those that live.
  std::optional<std::string> begin(const std::map<std::string, int64_t>& heard, bool steps);
  /// Whose are; empty: nobody's.
  const std::string& under_way() const noexcept { return under_way_; }
  void over() { under_way_.clear(); }

 private:
  struct loss {
    std::string node;
    int64_t lost_ns = 0;
  };
  std::deque<loss> lost_;  ///< one of a node, in the order of their losses
  std::string under_way_;
};

}  // namespace troupe::health
