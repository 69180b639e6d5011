// The brake of a budget that promises no watt that it does not have: when what is drawn is an
// overload all the same, and when work may go on.
//
// Such a budget keeps its watts by caps, which are of means: one reading of a job that keeps its
// pace is above its cap as often as below, and who draws above it is cut for within seconds. So the
// brake is for what goes on although caps are in force. It is held against what the breaker
// carries meanwhile: while cuts are waited for that is what was in force before
// (budget_policy.hpp), and the share is no more than 1.
//
// Pure: no clock, no actor; a look allocates nothing.
//
// Invariants
//   OVL-1  What is not read pulls no brake: of a child without a fresh reading nothing counts for
//     it, and against its release the most that it may draw.
//   OVL-2  A brake is pulled by the mean of `window_ns` with its last look above `over`, or by
//     looks at `far_over` or more, as many as no single reading can be in, and by nothing less.
//   OVL-3  It is held for `brake_hold_ns` at least, and until each look of a window was below
//     `room`. Then children are let go group by group, a gap between, while a window's mean is not
//     above `over`; an overload meanwhile pulls it again for all.
//   OVL-5  Who is not heard holds nobody for ever: after `tries_after` times the hold it no longer
//     counts, where each look of a window is below `room` by what is read. Such a release is a
//     try: until a window after its last group one look above `over` pulls the brake again.
//   OVL-4  A person's word goes first: who lets work go on has it go on at once, and the brake is
//     not pulled before no window of `calm_ns` was an overload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/power/row_policy.hpp"

namespace troupe::power {

/// What is drawn, as a share of what the breaker carries.
struct overload_look {
  bool read = false;    ///< of one child at least there is a fresh reading
  double at_least = 0;  ///< by fresh readings alone; 0 where there is none
  double at_most = 0;   ///< the same, and the most that the others may draw
  /// As at_least, of the most that the budget has had since cuts can still be under way: what is
  /// far above that is no cut that is waited for.
  double of_budget = 0;
};

class overload_policy {
 public:
  /// As short as a breaker hardly warms up in, and long enough for steps of a job, whose watts
  /// swing, to have a mean; who draws above a cap is cut for in half of it.
  static constexpr int64_t window_ns = 10'000'000'000;
  /// Jobs keep their caps within 2 % by ten seconds, and meters err as much. A breaker carries 1.13
  /// times what it is made for over an hour (IEC 60898).
  static constexpr double over = 1.05;
  /// From here on that breaker trips within the hour, and the sooner the more.
  static constexpr double far_over = 1.45;
  /// Below it there is room for who comes back first.
  static constexpr double room = 0.90;
  /// So many holds, until what is not read counts no more against a release: who is silent for that
  /// long has fallen to its static share, or has ended. Well below what a held step may take.
  static constexpr int tries_after = 6;
  /// Three windows: one may have what was held in it.
  static constexpr int64_t calm_ns = 3 * window_ns;
  /// In which children come back: the last half a minute after the first.
  static constexpr int groups = 4;

  /// Of `rules` counts how long a brake is held, and how it is released. A reading is fresh for
  /// `fresh_ns`.
  overload_policy(const row_rules& rules, int64_t tick_ns, int64_t fresh_ns);

  /// Once a tick; `before` is what the last one has come to.
  row_decision decide(const row_state& before, const overload_look& seen, int64_t now_ns);

  /// A look without a decision, where another policy decides.
  void watch(const overload_look& seen, int64_t now_ns);
  /// A person lets work go on. OVL-4
  void let_go();
  /// Whether that still holds.
  bool is_let_go() const { return let_go_; }
  /// Whether the last release was without regard to who is not read, and is still watched. OVL-5
  bool is_trying() const { return tries_; }

 private:
  const overload_look& last() const { return looks_[(count_ - 1) % looks_.size()]; }
  bool is_whole() const { return count_ >= looks_.size(); }
  std::optional<double> mean_read() const;
  double mean_most() const;
  bool is_over() const;
  bool is_far_over() const;
  bool has_room() const;
  bool has_room_as_read() const;
  bool may_try(const row_state& s, int64_t now_ns) const;
  bool may_follow(const row_state& s, int64_t now_ns) const;
  void end_release(row_state& s) const;
  void release(row_decision& d) const;

  row_rules rules_;
  size_t far_looks_;
  std::vector<overload_look> looks_;  ///< of a window, in a ring
  size_t count_ = 0;
  bool let_go_ = false;
  bool tries_ = false;
  std::optional<int64_t> calm_since_ns_ = {};
};

}  // namespace troupe::power
