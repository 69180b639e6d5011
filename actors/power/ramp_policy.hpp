// How fast what a job draws may rise: a start, a resume and a greater cap take a while instead of a
// step (power.ramp_w_s).
//
// A job draws what its machines do without steps and a part that follows its pace
// (work_pace_policy.hpp), and takes a pace where a step begins. So its watts rise in stairs. What a
// stair may be is earned by time since the one before, a second of it at most: so long steps
// rise by no more at once than short ones do in a second.
//
// Pure: it is told paces, and handed the time (nanoseconds of one monotonic clock).
//
// Invariants
//   RMP-1  Between any two moments the watts rise by no more than the slope times the time between
//     them, and a second's or a stair's more, whichever is greater. A stair is a 1024th of what
//     work draws at full speed, the first one, from no steps at all, the least pace.
//   RMP-2  It raises nothing: no pace is more than the one that is wanted.
//   RMP-3  A fall is at once, and earns nothing: a rise after it begins where it has fallen to.
//   RMP-4  While nothing says what work draws the pace is the least one, or what it is already.
//     Work of which nothing is seen (0 W) is not held back: whoever says that bounds what is wanted
//     (JPP-10).
#pragma once

#include <cstdint>
#include <optional>

#include "actors/train/work_pace_policy.hpp"

namespace troupe::power {

using train::work_pace;
using train::work_pace_policy;

class ramp_policy {
 public:
  static constexpr int64_t burst_ns = 1'000'000'000;

  /// Watts a second; 0: it bounds nothing.
  void set_slope(double w_s) { slope_w_s_ = w_s; }
  bool is_on() const { return slope_w_s_ > 0; }
  double slope_w_s() const { return slope_w_s_; }

  /// Steps are made at that pace from now on; 0: none are. `work_w`: what they draw at full speed,
  /// above what is drawn without any; none: it is not known.
  void steps(work_pace pace, std::optional<double> work_w, int64_t now_ns);
  /// What the next step may have where `wanted` is what else bounds it.
  work_pace next(work_pace wanted, std::optional<double> work_w, int64_t now_ns) const;
  /// When it may have that at the earliest: where steps are longer than a second it takes longer.
  /// None: it is not known.
  std::optional<int64_t> reaches_ns(work_pace wanted, std::optional<double> work_w,
                                    int64_t now_ns) const;

 private:
  double stair_ns(double work_w) const;

  double slope_w_s_ = 0;
  work_pace in_force_{0};
  int64_t earns_since_ns_ = 0;  ///< later than now: the last stair was more than was earned
};

}  // namespace troupe::power
