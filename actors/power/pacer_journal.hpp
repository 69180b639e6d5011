// What the journal of a job's power says (power.jsonl in the job's output): a JSON object a line,
// for each decision of its pacer that differs from the one before. Whoever writes the lines adds
// the time of day.
//
//   {"event":"begins","epoch":2,"budget_w":60.0,"parent":"auto"}
//   {"event":"pace","rule":"lease","pace_of_1024":500,"was_of_1024":1024,"budget_w":44.0, ...
//
// Of a machine that is held (machine_hold.hpp) there is a line, too, where what is in force is
// another pace, or is not set for another reason:
//
//   {"event":"in_force","pace_of_1024":512,"was_of_1024":1024}
//   {"event":"in_force","pace_of_1024":1024,"was_of_1024":512,"not_set":"..."}
//
// And where a step is held back so that it falls between those of other jobs (phase_policy.hpp):
//
//   {"event":"shifted","start_offset_ms":510.0,"parent":"row0"}
//
// "rule" is what the decision follows from: a bound that the pace keeps ("budget": the job's own,
// "lease": what the budget above grants, "lapsed": what is left of that), "draw", where the
// machines draw too much for any step or nothing says what they draw, or why the budget above lets
// no step begin. "pace_of_1024" is 0 where none may. "ramp": what bounds it lets it rise to
// "to_of_1024" by and by, in "in_s" seconds at the earliest.
//
// Invariants
//   PJN-1  Nothing is said twice: there is a line where the pace, the rule, the bound or the life
//     of the budget above is another one. What machines draw changes all the time, and a lease of
//     the same watts comes each second: neither is a decision. Nor is a pace on its way up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "actors/power/budget_journal.hpp"
#include "actors/power/job_lease_policy.hpp"
#include "actors/power/job_pace_policy.hpp"

namespace troupe::power {

/// What the pacer decided, and by what.
struct pacer_decision {
  work_pace pace;        ///< of the next step; 0: none may begin
  std::string why = {};  ///< that is, or what changed the pace last; may be empty
  double own_w = 0;      ///< the job's own budget; 0: it has none
  double budget_w = 0;   ///< what it keeps to; 0: nothing bounds it
  /// To which the pace rises by and by, and how long that takes at least, if it is known.
  std::optional<work_pace> ramps_to = {};
  std::optional<int64_t> ramp_ns = {};
  job_pace_policy::totals drawn = {};
  /// Of a job under a budget.
  struct leased {
    std::string parent;
    lease_order order;
    double cap_w = 0;
    int64_t left_ns = 0;  ///< 0: it has lapsed, or there was none yet
    lease_hold hold = lease_hold::none;
  };
  std::optional<leased> lease = {};
};

/// "lease", "budget", "brake".
std::string_view rule_of(const pacer_decision& d);

class pacer_journal {
 public:
  using sink = budget_journal::sink;

  pacer_journal() = default;
  /// `to`: empty: nobody keeps it.
  explicit pacer_journal(sink to) : to_(std::move(to)) {}

  bool is_kept() const { return to_ != nullptr; }
  /// `budget_w`: 0: the job has none of its own. `parent`: as it is named; empty: none is above.
  /// `dry_run`: nothing that is decided is done.
  void begins(uint32_t epoch, double budget_w, std::string_view parent, bool dry_run = false) const;
  /// PJN-1
  void decided(const pacer_decision& d);
  /// The run is told to hold the first operations of a step back, for the budget above.
  void shifted(uint64_t offset_us, std::string_view parent) const;
  /// Of a machine that is held. `not_set`: why it is not what was decided; empty: it is, or nothing
  /// is to be set.
  void in_force(work_pace pace, const std::string& not_set);

 private:
  /// By what two decisions differ; the last is the pace that it rises to, or has.
  using essence = std::tuple<int, std::string_view, int64_t, uint64_t, int>;
  /// The same whatever the pace on the way is.
  static essence goal_of(essence e);

  sink to_;
  std::optional<essence> told_;
  std::pair<work_pace, std::string> set_;
};

}  // namespace troupe::power
