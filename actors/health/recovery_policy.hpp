// What a job does about a fault: the first rule of its finding with budget left (recovery.rule).
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
//     is not finite and that nobody wants the job to go back for (JOB-18).
//   RCV-4  No more than three begin over the same (one node, or no node) without a finished step
//     between them, however long each takes: what stands in the way then is none of what an epoch
//     changes. Several nodes may be lost one after another, as when a rack is.
//   RCV-5  The rules of a finding are applied in their order, each at most `times` within any
//     `within_s`; what an hour or a row allows (RCV-1, RCV-4) bounds all of them together, but the
//     rule that ends the job. Where none of them has budget left the job ends.
//   RCV-6  Each finding has exactly one outcome: what a job is not told of changes nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

inline constexpr error_kind<std::string_view> rules_used_up{
    "rules_used_up", errc::unavailable, "no rule for {} has budget left",
    "[[recovery.rule]] says how often each may be applied"};
inline constexpr error_kind<size_t> ended_by_rule{
    "ended_by_rule", errc::unavailable, "rule {} ends the run",
    "[[recovery.rule]] says what is done; `troupe config show` numbers them from the top"};

/// What is done about a fault, and by which rule.
struct recovery_decision {
  config::recovery_action action = config::recovery_action::end;
  size_t rule = 0;          ///< its place among all rules, from 1
  int64_t times_left = -1;  ///< how often it may be applied again now; -1: any number
  bool operator==(const recovery_decision&) const = default;
};

/// What has been used of the budgets, for who goes on with them.
struct recoveries_made {
  uint64_t begun = 0;
  std::vector<int64_t> within_hour_ns = {};                ///< when those of the last hour began
  std::map<size_t, std::vector<int64_t>> applied_ns = {};  ///< by place of the rule, from 0
  bool operator==(const recoveries_made&) const = default;
};

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

  /// What is done now about a finding on a node or, where nobody knows one, on "": a recovery that
  /// begins is counted. Errors: as above, where no budget is left (RCV-1, RCV-4, RCV-5).
  result<recovery_decision> take(finding_name finding, const std::string& node, int64_t now_ns);
  /// One begins that no rule is about: an hour's and a row's budget holds for it, too. Errors: as
  /// above.
  status take_unruled(int64_t now_ns) { return spend("", now_ns); }
  /// One begins that a person orders: it costs nothing of the budget.
  void take_ordered() noexcept { ++count_; }

  recoveries_made made() const;
  /// Takes over what another one has used; before the first fault.
  void remember(const recoveries_made& made);

  /// Recoveries that have begun.
  uint64_t begun() const noexcept { return count_; }

 private:
  config::recovery_section rules_;
  bool begun_ = false;
  uint64_t count_ = 0;
  /// The first rule of the finding with budget left (RCV-5); none: npos.
  size_t rule_for(finding_name finding, int64_t now_ns);
  status spend(const std::string& node, int64_t now_ns);

  std::map<size_t, std::deque<int64_t>> applied_;  ///< by place of the rule: when, within its time
  std::map<std::string, int> in_a_row_;            ///< without a step between them, by node
  std::deque<int64_t> within_hour_;                ///< when those of the last hour began
};

}  // namespace troupe::health
