// Which nodes are not admitted: those that a person took out, and those that are lost again and
// again while there is a spare.
//
// Pure: it is told what happened and handed the time.
//
// Invariants
//   EVC-1  A node that is evicted stays so until it is admitted: by a person, or by the coordinator
//     where no spare is left for its place (CRD-12).
//   EVC-2  Losing a node twice within an hour is reason to evict it; what a person orders is no
//     loss. Its losses are forgotten when it is admitted.
//   EVC-3  Where there is a choice, a node that was never lost comes into a place before one that
//     was, and of those the one whose loss is the longest ago: what a process was lost over (a
//     device, a link) may be wrong with its host still.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::cluster {

class evictions_policy {
 public:
  /// A node that had ranks is lost.
  void note_loss(const std::string& node, int64_t now_ns);
  /// EVC-2.
  bool is_unreliable(const std::string& node, int64_t now_ns) const;
  /// EVC-3: when it was lost last; none: never.
  std::optional<int64_t> last_loss_ns(const std::string& node) const;

  /// `why`: a sentence without its name.
  void evict(const std::string& node, std::string why) { evicted_[node] = std::move(why); }
  /// Whether it was evicted.
  bool admit(const std::string& node);
  bool is_evicted(const std::string& node) const { return evicted_.contains(node); }
  /// Why; empty: it is not.
  std::string why(const std::string& node) const;
  /// All names.
  std::vector<std::string> all() const;

 private:
  std::map<std::string, std::string> evicted_;
  std::map<std::string, std::deque<int64_t>> losses_;  ///< the last two, by node
};

}  // namespace troupe::cluster
