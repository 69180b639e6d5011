// What the journal of a budget says: a JSON object a line, and only what changes. Whoever writes
// the lines adds the time of day.
//
// Invariants
//   BJN-1  Nothing is said twice: a state where it begins and where it ends, a grant where its cap
//     or its word to pause differs from what that child was told before.
//   BJN-2  Strangers cannot fill it: what is refused stands there once for each name, and of
//     `names_told` names.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "actors/power/budget_policy.hpp"

namespace troupe::power {

/// As people read it, and as journals have it.
constexpr double watts_of(int64_t mw) {
  return static_cast<double>(mw) / 1000;
}

/// How a child is, as far as a journal says it.
struct child_condition {
  bool silent = false, unruly = false;
  bool elsewhere = false;  ///< it has followed a later life
};

class budget_journal {
 public:
  using sink = std::function<void(const std::string&)>;
  /// Further ones are refused as well, and not written down.
  static constexpr size_t names_told = 16;

  budget_journal() = default;
  /// `to`: empty: nobody keeps it. `children`: their names.
  budget_journal(sink to, std::vector<std::string> children);

  /// `instead_of_mw`: a person has set the budget in a life before, and that is what the
  /// configuration says. `follows`: the file that the budget follows; empty: none.
  /// `dry_run`: nobody is held to what is decided.
  void begins(std::string_view budget, budget_mode mode, int64_t budget_mw, uint64_t epoch,
              std::optional<int64_t> instead_of_mw = {}, std::string_view follows = {},
              bool dry_run = false);
  void heard_first(size_t child, const power_report& r);
  void refused(std::string_view who, std::string_view why);
  /// `was`: what it was told before.
  void granted(size_t child, const power_grant& now, const std::optional<power_grant>& was,
               const power_report& answered);
  void set(int64_t budget_mw, int64_t was_mw, uint64_t for_ms, std::string_view by);
  void set_ends(int64_t budget_mw, int64_t was_mw);
  /// The budget by the file that it follows.
  void follows(int64_t budget_mw, int64_t was_mw, std::string_view file);
  void superseded(size_t child, uint64_t epoch);
  /// Whether those that a child names are counted (SHM-2): that they are not, once.
  void machines(size_t child, bool counted);
  /// What the budget above grants, or the budget has without that.
  void own_lease(std::string_view above, const own_cap& own, int64_t was_mw);
  void parent_not_heard(std::string_view above, std::string_view why);
  /// `trouble`: why what children may draw is not on the disk, if it is not. BJN-1
  void kept(const std::optional<error>& trouble);

  void conditions(size_t child, const child_condition& now, int64_t counted_mw,
                  std::optional<int64_t> drawn_mw);
  /// A step of it is to begin so much later, of steps that take `period_ns`.
  void shifted(size_t child, int64_t offset_ns, int64_t period_ns);
  void short_of_floors(bool now, int64_t budget_mw, int64_t counted_mw);
  /// By a person.
  void brake_set(bool on, std::string_view by);
  /// Rungs of thresholds that are taken.
  struct rungs {
    size_t level = 0;  ///< how many
    row_reason reason = row_reason::steady;
    rung_marks marks = {};     ///< above which they are
    double low = 1, high = 1;  ///< what classes may have of their ceilings now, as a share
    bool unruly = false;       ///< a child draws more than its cap
  };
  /// Where they are more or fewer than before.
  void rungs_taken(const rungs& now, int64_t budget_mw, std::optional<int64_t> drawn_mw);
  /// A threshold that leaves less free than the row rises: once.
  void unsafe_t2(double t2, double safe_t2);
  /// By the policy; `pulls`: and that holds the children.
  void brake(bool wanted, bool pulls, int64_t budget_mw, int64_t counted_mw,
             std::optional<int64_t> drawn_mw);

 private:
  void write(const nlohmann::ordered_json& line) const;
  nlohmann::ordered_json of_child(std::string_view event, size_t child) const;

  sink to_;
  std::vector<std::string> names_;
  std::vector<child_condition> told_;
  std::set<size_t> uncounted_;  ///< children
  std::set<std::string, std::less<>> refused_;
  bool short_ = false, unkept_ = false, unsafe_ = false;
  size_t level_ = 0;
};

}  // namespace troupe::power
