// When the machine of a node that a finding accuses is examined without a person: which node, and
// what that showed. Pure: it is told what is raised and handed the time (nanoseconds of one
// monotonic clock).
//
// Why so seldom: an examination loads a machine for a second or two, and each step waits for its
// slowest rank.
//
// Invariants
//   SUS-1  One examination is under way in the cluster, a node's machine is examined at most once
//     within `pause_ns`, and most_per_hour in an hour.
//   SUS-2  None begins but while steps are made. Where the job starts, recovers, is paused or
//     stands still there is nothing to compare with, who is accused may be about to be replaced,
//     and a device that hangs would hold up the examination, too. None begins while a checkpoint is
//     written, which the check of the disk would hold up.
//   SUS-3  Who is not heard is not asked. He stays a suspect for `pause_ns` though his finding may
//     go meanwhile: a process that was frozen can answer only after that, and a machine whose rank
//     was lost only once another process of it has joined.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/health/findings_policy.hpp"

namespace troupe::health {

class suspicion_policy {
 public:
  static constexpr size_t most_per_hour = 6;
  static constexpr size_t most_suspects = 256;  ///< further ones are none

  explicit suspicion_policy(int64_t pause_ns = 0) : pause_ns_(pause_ns) {}

  /// Whether a finding of this name can have its reason in the machine.
  static bool accuses(finding_name name);

  /// Findings that have become ones.
  void raised(const std::vector<finding>& news, int64_t now_ns);

  /// What a beginning depends on.
  struct surroundings {
    bool steps = false;                  ///< steps are made
    bool saves = false;                  ///< a checkpoint is written
    std::set<std::string> unheard = {};  ///< nodes that are silent, gone or taken out
  };
  /// Whose machine is examined now, and for which finding; the longest suspected first. It has
  /// begun then, and is over when over() is told.
  std::optional<subject> begin(const surroundings& now, int64_t now_ns);

  /// What it showed, a sentence.
  void over(const subject& who, std::string text, int64_t now_ns);

  /// What the last examination of a finding's node showed, where it accuses the node; empty: there
  /// was none within `pause_ns`.
  std::string text_for(const subject& who, int64_t now_ns) const;

  /// Examinations so far, a count.
  uint64_t begun() const noexcept { return begun_; }

 private:
  struct suspect {
    subject who;
    int64_t since_ns = 0;
  };
  struct examination {
    int64_t begun_ns = 0;
    std::string text = {};
  };
  void forget(int64_t now_ns);

  int64_t pause_ns_;
  std::deque<suspect> suspects_;  ///< one of a node, in the order in which they became some
  std::map<std::string, examination> examined_;  ///< by node, within pause_ns
  std::deque<int64_t> hour_;                     ///< when those of the last hour began
  bool under_way_ = false;
  uint64_t begun_ = 0;
};

}  // namespace troupe::health
