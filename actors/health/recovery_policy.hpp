// Whether a job goes on after a fault, or ends: the rules and their budget.
//
// Pure: it is told what happened and handed the time. What a recovery consists of is the job's
// affair (actors/train/job_policy.hpp).
//
// Invariants
//   RCV-1  No more than `most_per_hour` recoveries begin within any hour: a job that falls again
//     and again ends, with what it fell over.
//   RCV-2  A fault before the first step ends the job: what is wrong at the start is wrong with the
//     start, and a person is there to see it.
//   RCV-3  What a recovery cannot mend ends the job: wrong data, a wrong configuration, a loss that
//     is not finite.
//   RCV-4  No more than three begin over the same (one node, or no node) without a finished step
//     between them, however long each takes: what stands in the way then is none of what an epoch
//     changes. Several nodes may be lost one after another, as when a rack is.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::health {

inline constexpr error_kind<int64_t> recoveries_used_up{
    "recoveries_used_up", errc::unavailable, "{} recoveries have begun within an hour",
    "recovery.most_per_hour says how many may"};
inline constexpr error_kind<int, std::string_view> recoveries_in_vain{
    "recoveries_in_vain", errc::unavailable, "{0} recoveries{1} came to no step",
    "look at the logs of the nodes; `troupe up` starts all of it again"};

class recovery_policy {
 public:
  recovery_policy() = default;
  explicit recovery_policy(const config::recovery_section& rules) : rules_(rules) {}

  /// The job has made, or gone on from, a step: from now on there is something to recover (RCV-2).
  void has_begun() noexcept { begun_ = true; }

  /// Whether a recovery could mend what failed so, budget aside (RCV-2, RCV-3).
  bool can_mend(const error& why) const noexcept;

  /// A step is finished (RCV-4).
  void has_progressed() noexcept { in_a_row_.clear(); }

  /// A recovery is to begin, over a node or, where nobody knows one, over "". Errors: as above,
  /// where none is left (RCV-1, RCV-4).
  status take(const std::string& node, int64_t now_ns);
  /// One begins that a person orders: it costs nothing of the budget.
  void take_ordered() noexcept { ++count_; }

  /// Recoveries that have begun.
  uint64_t begun() const noexcept { return count_; }

 private:
  config::recovery_section rules_;
  bool begun_ = false;
  uint64_t count_ = 0;
  std::map<std::string, int> in_a_row_;  ///< without a step between them, by node
  std::deque<int64_t> within_hour_;  ///< when those of the last hour began
};

}  // namespace troupe::health
