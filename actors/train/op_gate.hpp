// When the operations of a rank may begin, so that it works at a pace (work_pace_policy.hpp).
//
// A rank at half its speed does every operation as fast as ever, and then nothing for as long as
// that took. What counts is what its own device computed: time in which it waited for others is no
// work, and stretching it, too, would make ranks wait for each other ever longer.
//
// Invariants
//   OPG-1  Operations begin in the order in which they were put in.
//   OPG-2  Below full speed one at a time begins, and none before the stretched time of the one
//     before is over; that holds from one pass to the next, too, also where the next is faster.
//   OPG-3  At full speed nothing is held back, but by the brake and at a pass's start.
//   OPG-4  While the brake is on nothing begins, whatever the pace is, also from one pass to the
//     next; what has begun ends. Time in which something could have begun counts as held back.
//   OPG-5  Where a brake may come two are under way at most at full speed, so that it acts within
//     two operations: the device has one to go on with, and no more. What is left of a pass that
//     has failed counts until it has ended.
//   OPG-6  Where something else makes the device slower (actuator.hpp) a pace is known here and
//     holds nothing back.
//   OPG-7  A pass whose start is held back begins nothing before, whatever its pace is. The next
//     one knows nothing of that.
//
// Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "actors/train/schedule_policy.hpp"
#include "actors/train/work_pace_policy.hpp"

namespace troupe::train {

class op_gate {
 public:
  /// No start of a pass is held back by more, whatever is told.
  static constexpr int64_t latest_start_ns = 10'000'000'000;

  /// What the pass before has put in and not begun is forgotten. `starts_ns`: OPG-7; 0: at once.
  void begin_pass(work_pace pace, int64_t starts_ns = 0) {
    pace_ = std::clamp(pace, work_pace_policy::least_pace, work_pace{});
    held_.clear();
    waited_ns_ = 0;
    since_ns_.reset();
    starts_ns_ = starts_ns;
  }
  /// OPG-5
  void may_brake(bool may) { may_brake_ = may; }
  /// OPG-6
  void stretches(bool does) { stretches_ = does; }
  /// OPG-4
  void brake(bool on) { brakes_ = on; }
  bool brakes() const noexcept { return brakes_; }
  void put(const action& a) { held_.push_back(a); }
  bool empty() const noexcept { return held_.empty(); }

  /// The operation that begins now; none: it is not time, or nothing is there.
  std::optional<action> next(int64_t now_ns) {
    if (held_.empty() || is_full()) return {};
    if (brakes_ || now_ns < open_from_ns()) {
      if (!since_ns_) since_ns_ = now_ns;
      return {};
    }
    if (since_ns_) waited_ns_ += now_ns - *since_ns_;
    since_ns_.reset();
    starts_ns_ = 0;
    ++under_way_;
    const auto out = held_.front();
    held_.pop_front();
    return out;
  }
  /// An operation has ended, of this pass or of one before; the device computed for so long since
  /// the one before had.
  void ended(int64_t computed_ns, int64_t now_ns) {
    if (under_way_ > 0) --under_way_;
    if (paces()) opens_ns_ = work_pace_policy::gate_ns(now_ns - computed_ns, now_ns, pace_);
  }

  /// Whether an operation could begin, but for the pace or the brake, as of the last next().
  bool holds() const noexcept { return since_ns_.has_value(); }
  /// Whether the start of the pass is held back, and nothing of it has begun. OPG-7
  bool starts_late() const noexcept { return starts_ns_ > 0; }
  /// When next() has something, where only the time holds it back.
  std::optional<int64_t> opens_ns() const {
    return since_ns_ && !brakes_ ? std::optional(open_from_ns()) : std::nullopt;
  }
  /// For how long operations of this pass could have begun and did not.
  int64_t waited_ns() const noexcept { return waited_ns_; }
  work_pace pace() const noexcept { return pace_; }

 private:
  int64_t open_from_ns() const noexcept { return std::max(opens_ns_, starts_ns_); }
  bool paces() const noexcept { return stretches_ && pace_ < work_pace{}; }
  bool is_full() const noexcept {
    return paces() ? under_way_ > 0 : may_brake_ && under_way_ > 1;  // OPG-2, OPG-5
  }

  work_pace pace_;
  bool stretches_ = true, may_brake_ = false, brakes_ = false;
  std::deque<action> held_;
  int under_way_ = 0;
  int64_t opens_ns_ = 0;
  int64_t starts_ns_ = 0;            ///< OPG-7; 0: it does at once, or has
  std::optional<int64_t> since_ns_;  ///< the next one could have begun
  int64_t waited_ns_ = 0;
};

}  // namespace troupe::train
