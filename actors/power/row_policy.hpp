// The governor of a row of servers: how far clocks are locked, and when the brake is pulled, so
// that more servers than nameplates allow live under one breaker.
//
// POLCA (arXiv 2308.12908, ASPLOS'24): two thresholds of the row's power, two classes of servers,
// locked clocks. Its caps are a short ladder of rungs, each with the threshold above which it is
// taken; the baselines and the deeper ladder for fast actuation are other rungs of the same rule,
// so that one code decides for all. A pure function: (state, sample, now) -> (state, commands), no
// clock, no memory of its own; simulator, live actor and replay call the same.
//
// Invariants
//   ROW-1  One command is in flight: a rung is taken only once the last command has settled, but
//     for rungs marked `at_once`.
//   ROW-2  Caps are undone in the reverse order, one a tick, below their threshold less the
//     hysteresis, settled, and never while the brake is not off.
//   ROW-3  A reading that is missing is never a low one: nothing is undone on it, and after
//     `stale_ticks` of them what the caps in force let through is taken for drawn.
//   ROW-4  A measured overload pulls the brake whatever is in flight; it is released once held
//     longer than `brake_hold_ns`, and not without a reading.
//   ROW-5  With release groups a brake is released group by group, each a gap after the last and
//     only while a reading leaves room; an overload meanwhile pulls it again for all.
//   ROW-6  While a child draws more than its cap, a rung that is taken and still needed counts as
//     one that does not do: the next is taken once settled, and none is undone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "io/base/result.hpp"
#include "io/base/splitmix.hpp"

namespace troupe::power {

/// Which rungs: POLCA's, those of a deeper ladder, or of what POLCA is compared with: the brake
/// alone, one threshold for low priority, one for all.
enum class row_rule : uint8_t { none, low, all, polca, ladder };
inline constexpr std::array<std::string_view, 5> row_rule_names = {"none", "low", "all", "polca",
                                                                   "ladder"};
std::string_view to_string(row_rule rule);

/// Clocks of both classes with this rung and those before it taken.
struct row_rung {
  double threshold = 1;  ///< of the budget
  int lp_mhz = 0, hp_mhz = 0;
  bool at_once = false;  ///< it does not wait for an earlier command to settle
  bool operator==(const row_rung&) const = default;
};

/// What a person chooses; shares of the budget. Above `t3` the ladder slows high priority, too.
struct row_thresholds {
  double t1 = 0.80, t2 = 0.89, t3 = 0.95;
};

/// Where nobody says others: the paper's, and what a ladder for fast actuation was measured with.
constexpr row_thresholds thresholds_of(row_rule rule) {
  return rule == row_rule::ladder ? row_thresholds{0.85, 0.92, 0.95} : row_thresholds{};
}

/// Everything the policy goes by: data, so that another machine's clocks are another table.
struct row_rules {
  static constexpr size_t most_rungs = 8;

  std::array<row_rung, most_rungs> rungs{};
  size_t rung_count = 0;
  double hysteresis = 0.05;             ///< of the budget
  int max_mhz = 1410, brake_mhz = 288;  ///< an A100's
  int64_t settle_up_ns = 0;             ///< from a command to the next rung
  int64_t settle_down_ns = 0;           ///< from a command until it may be undone
  double brake_at = 1;                  ///< of the budget
  int64_t brake_actuation_ns = 5'000'000'000;
  int64_t brake_hold_ns = 30'000'000'000;
  int release_groups = 1;                   ///< after a brake; 1: all at once, as in the paper
  int64_t release_gap_ns = 10'000'000'000;  ///< from one group to the next
  int stale_ticks = 3;

  int lp_mhz(size_t level) const { return level == 0 ? max_mhz : rungs[level - 1].lp_mhz; }
  int hp_mhz(size_t level) const { return level == 0 ? max_mhz : rungs[level - 1].hp_mhz; }
};

/// The rungs of a rule, for servers whose clocks follow a command within `actuation_ns`, seen every
/// `tick_ns`. POLCA's last command settles after both; the ladder takes its next rung after one
/// actuation and undoes one after `ladder_undo_ns`.
row_rules rules_of(row_rule rule, const row_thresholds& t, int64_t actuation_ns, int64_t tick_ns);
inline constexpr int64_t ladder_undo_ns = 10'000'000'000;

/// The thresholds of its rungs, the least first, as shares of the budget; 0: there are fewer.
using rung_marks = std::array<double, 3>;
rung_marks marks_of(const row_rules& rules);

/// Whether thresholds can be used: above the hysteresis, at most 1, each not below the one before.
/// Error: usage.
status check(row_rule rule, const row_thresholds& t);

/// The brake locks all clocks at `brake_mhz`; it takes `brake_actuation_ns` either way.
enum class row_brake : uint8_t { off, arming, on, releasing };

struct row_state {
  size_t level = 0;  ///< rungs that are taken
  row_brake brake = row_brake::off;
  int64_t brake_ns = 0;     ///< when the brake came to be what it is, or a group was released
  uint32_t brakes = 0;      ///< pulled so far
  int released_groups = 0;  ///< of this brake
  std::optional<int64_t> command_ns = {};  ///< when clocks were last commanded
  int silent_ticks = 0;                    ///< without a reading, up to now
  bool operator==(const row_state&) const = default;
};

/// Of one tick; shares of the budget.
struct row_sample {
  std::optional<double> drawn;  ///< the tick's mean; none: no reading came
  double at_caps = 1;           ///< what the caps in force let through, if all of it is drawn
  bool unruly = false;          ///< a child draws more than its cap
};

enum class row_reason : uint8_t {
  steady,      ///< nothing changes
  no_reading,  ///< nothing changes, since too little is known
  above,       ///< above a rung's threshold
  below,       ///< far enough below it
  overload,    ///< above the breaker
  held         ///< the brake was held long enough
};
inline constexpr std::array<std::string_view, 6> row_reason_names = {
    "steady", "no reading", "above", "below", "overload", "held"};
std::string_view to_string(row_reason reason);

struct row_commands {
  std::optional<int> lp_mhz = {}, hp_mhz = {};  ///< to lock from now on
  std::optional<bool> brake = {};               ///< pull, or begin to release
  std::optional<int> release_group = {};        ///< whose brake is released from now on
  row_reason reason = row_reason::steady;
  bool operator==(const row_commands&) const = default;
};

struct row_decision {
  row_state state;
  row_commands commands;
};

class row_policy {
 public:
  explicit row_policy(const row_rules& rules) : rules_(rules) {}

  /// Once a tick; `now_ns` does not go back. A reading that is no finite number is none.
  row_decision decide(const row_state& before, const row_sample& sample, int64_t now_ns) const;

  const row_rules& rules() const { return rules_; }

 private:
  size_t next_level(const row_state& s, const row_sample& sample, double power, bool blind,
                    int64_t now_ns) const;
  void work_brake(row_decision& d, double power, bool read, bool caps_do, int64_t now_ns) const;

  row_rules rules_;
};

/// The T2 that a row's own rises allow: what power may rise within telemetry and actuation is kept
/// free (brief of POLCA: 100 % less the largest rise). `rise` is a share of the budget.
constexpr double safe_t2(double rise) {
  return 1 - rise;
}

/// Which group a child is of when a brake is released, drawn anew for each brake: who shares a
/// group by its place in the row comes back together each time, and rises together.
constexpr int release_group(uint64_t seed, uint32_t brake, uint64_t child, int groups) {
  const uint64_t x = mix_bits(seed + splitmix_step * (1 + child + (uint64_t{brake} << 32)));
  return static_cast<int>(x % static_cast<uint64_t>(groups));
}

}  // namespace troupe::power
