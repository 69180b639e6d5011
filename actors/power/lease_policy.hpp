// A child's side of a lease of watts: which cap is in force now, and what its parent is told.
//
// The same class stands on every edge of the tree feed -> row -> rack -> machine -> device: what
// carries out the cap is an actuator at a leaf, and the division among children elsewhere.
//
// Two stamps make what a network does to messages harmless. A grant bears (epoch, sequence), which
// grow: what is older than the lease that is held is ignored. And it names the report that it
// answers: its time runs from when that report was SENT, by the child's own clock, so that a grant
// that was long under way has lapsed where it arrives, clocks need not agree, and what was granted
// to a process that has died says nothing to the next one.
//
// Pure: no clock, no actor.
//
// Invariants
//   PWR-2  No lost lease, parent or message raises a cap. A child falls to min(in force, static
//     share) within ttl and one tick of the last report that was answered; grants of an older
//     (epoch, sequence), to another incarnation, or that have lapsed on the way are ignored.
//   LSE-1  What is told as in force is the most that may be: what is read back from the actuator,
//     what it has been commanded, and each command before that within an actuation of the one that
//     took its place: it may still be on its way. So a decrease is told once it is read back and no
//     raise can come after it.
//   LSE-2  The first lease of a parent's life, and its renewals, raise nothing: that parent may go
//     by a report of long ago. What it means to raise it grants under a sequence of its own, once
//     it has been told what is in force.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>

#include "actors/power/recent_most.hpp"

namespace troupe::power {

/// Of two leases the greater is the newer. An epoch is one life of a parent; 0: none was granted.
struct lease_order {
  uint64_t epoch = 0, sequence = 0;
  auto operator<=>(const lease_order&) const = default;
};

/// Which report of a child: later ones are greater, also over its restarts.
struct report_id {
  uint64_t incarnation = 0;
  int64_t sent_ns = 0;  ///< by the child's clock
  auto operator<=>(const report_id&) const = default;
};

/// Parent to child. A renewal has the order and the cap of the lease and answers a later report.
struct power_grant {
  lease_order order;
  report_id answers;
  int64_t cap_mw = 0;
  int64_t ttl_ns = 0;  ///< from when the answered report was sent
  bool shed = false;   ///< save and pause at the next step's end; the cap is for then
  bool operator==(const power_grant&) const = default;
};

/// What a parent answers to a report.
struct power_answer {
  power_grant grant;            ///< of the epoch 0: none is granted now
  int64_t static_share_mw = 0;  ///< what the child may draw once its lease has lapsed
  bool brake = false;           ///< all work is held, within the step
};

/// Child to parent, every tick: an acknowledgement and a demand in one, so that neither is of
/// another time than the other.
struct power_report {
  report_id id;
  lease_order order;                     ///< of the lease that `in_force_mw` follows
  int64_t in_force_mw = 0;               ///< LSE-1
  std::optional<int64_t> drawn_mw = {};  ///< none: nothing measures it
  int64_t wish_mw = 0;                   ///< what it would draw without a cap
  bool works = true;                     ///< false: it makes no steps, and what it draws is idle
  bool held = false;  ///< by a brake: operations may still end, and what it draws is not idle yet
  int64_t actuation_ns = 0;  ///< that its caps have taken to be in force; 0: it has not measured it
};

enum class grant_verdict : uint8_t {
  taken,
  older,       ///< a newer lease is held
  late,        ///< its time was over when it came
  not_to_us,   ///< it answers what an earlier process at this place said
  impossible,  ///< no parent of ours says that
};

/// Beyond it a number is no power of anything on earth.
inline constexpr int64_t beyond_mw = 1'000'000'000'000'000;
/// Beyond it an epoch is no count of lives: taken once, it would shut out every parent after it.
inline constexpr uint64_t beyond_lives = 1'000'000'000'000;

class lease_policy {
 public:
  /// `incarnation` is greater than that of any process before at this place. An actuator carries
  /// out its commands in their order, each within `actuation_ns`.
  ///
  /// `found_mw`: the cap in force as it was found, or what the process before had commanded within
  /// an actuation, whichever is more. Of a node with children it is the own cap that its process
  /// before journalled, or else budget_policy::told_mw(); read_back() of counted_mw() follows. What
  /// it counts is not what it had: static shares that it takes for those of children of which it
  /// has not heard would raise its own cap without a grant.
  lease_policy(int64_t static_share_mw, uint64_t incarnation, int64_t found_mw,
               int64_t actuation_ns = 0)
      : static_share_mw_(static_share_mw),
        incarnation_(incarnation),
        cap_mw_(std::min(found_mw, static_share_mw)),
        commanded_mw_(found_mw),
        read_back_mw_(found_mw),
        under_way_(actuation_ns) {}

  grant_verdict hear(const power_grant& g, int64_t now_ns);

  /// Once a tick, and after a grant that is to be in force at once: the cap to command from now on.
  int64_t tick(int64_t now_ns);
  /// The parent has changed it. What a lapse falls to is the less of it and the cap, so a greater
  /// one raises nothing.
  void set_static_share(int64_t mw) { static_share_mw_ = mw; }
  /// What the actuator says is in force.
  void read_back(int64_t cap_mw) { read_back_mw_ = cap_mw; }

  /// The cap as of the last tick or grant.
  int64_t cap_mw() const { return cap_mw_; }
  /// LSE-1
  int64_t in_force_mw() const { return under_way_.most(std::max(cap_mw_, read_back_mw_)); }
  bool is_leased(int64_t now_ns) const { return now_ns < until_ns_; }
  /// What is left of the lease; 0: none is held.
  int64_t left_ns(int64_t now_ns) const { return is_leased(now_ns) ? until_ns_ - now_ns : 0; }
  const lease_order& order() const { return order_; }
  /// Whether the parent wants the work saved and paused.
  bool is_shed() const { return shed_; }

  power_report report(int64_t now_ns, std::optional<int64_t> drawn_mw, int64_t wish_mw) const {
    return {{incarnation_, now_ns}, order_, in_force_mw(), drawn_mw, wish_mw};
  }

 private:
  int64_t static_share_mw_;
  uint64_t incarnation_;
  int64_t cap_mw_, commanded_mw_, read_back_mw_;
  recent_most under_way_;  ///< commands that others have taken the place of
  lease_order order_;
  lease_order first_;  ///< of this epoch
  int64_t until_ns_ = std::numeric_limits<int64_t>::min();
  bool shed_ = false;
};

}  // namespace troupe::power
