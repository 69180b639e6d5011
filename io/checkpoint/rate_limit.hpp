// A limit on bytes a second: whoever moves bytes says how many and when, and is told how long to
// wait. Knows no clock: times are handed in, in nanoseconds of any clock that does not go back.
//
// RL-1  Over any time, no more is moved than the rate allows and one amount that was under way.
// RL-2  Time in which nothing was moved is not saved up.
#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe::io::checkpoint {

class rate_limit {
 public:
  /// 0: without limit.
  explicit rate_limit(uint64_t bytes_per_second) : rate_(bytes_per_second) {}

  /// `bytes` are moved from `now_ns` on.
  void spend(uint64_t bytes, int64_t now_ns) {
    if (rate_ == 0) return;
    const double ns = static_cast<double>(bytes) / static_cast<double>(rate_) * 1e9;
    free_at_ns_ = std::max(free_at_ns_, now_ns) + static_cast<int64_t>(std::min(ns, most_ns));
  }

  /// How long nothing more may be moved, 0 or more.
  int64_t wait_ns(int64_t now_ns) const { return std::max<int64_t>(0, free_at_ns_ - now_ns); }

 private:
  static constexpr double most_ns = 1e15;  ///< days; keeps sums of times from overflowing
  uint64_t rate_;
  int64_t free_at_ns_ = 0;
};

}  // namespace troupe::io::checkpoint
