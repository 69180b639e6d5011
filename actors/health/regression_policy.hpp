// Whether steps take longer than they did in this epoch: machines that throttle, a network that is
// shared, a leak. Nobody in particular is named.
//
// Pure.
//
// Invariants
//   RGR-1  Steps are held against the best that `windows` windows one after the other had as their
//     median since the epoch began, or since the work of a step or its pace changed.
//   RGR-2  Each of the last `windows` windows is longer by the limit: one that is slow is none, and
//     neither is one that was quick by chance before.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "actors/health/step_windows_policy.hpp"

namespace troupe::health {

class regression_policy {
 public:
  static constexpr size_t windows = 5;

  regression_policy() = default;
  /// `limit`: the least part of a step that it is longer by, as 0.2; 0: it is never told.
  explicit regression_policy(double limit) : limit_(limit) {}

  struct verdict {
    double step_ms = 0;  ///< the median of the last windows
    double best_ms = 0;  ///< RGR-1
  };
  /// The next window of steps; none: they do not take longer.
  std::optional<verdict> judge(const step_window& last);

 private:
  double limit_ = 0;
  uint32_t epoch_ = 0;
  uint64_t tokens_ = 0;
  double pace_ = 1;
  double best_ms_ = 0;         ///< 0: not known
  std::deque<double> lately_;  ///< the last windows
};

}  // namespace troupe::health
