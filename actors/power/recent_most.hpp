// The most of what stood within the last while: of caps that something may still follow.
//
// Fixed in size: values that ended within an eighth of the while of each other are kept as one, the
// greatest of them, until the last has gone. So what is told may be what stood up to an eighth
// longer ago, and is never less than what did stand.
//
// Pure; allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace troupe::power {

class recent_most {
 public:
  explicit recent_most(int64_t window_ns) : window_ns_(window_ns) {}

  /// From now on it is of so long a while, if that is longer.
  void widen(int64_t window_ns) { window_ns_ = std::max(window_ns_, window_ns); }
  /// It stood until now, and does not any more. `now_ns` does not go back.
  void ended(int64_t value, int64_t now_ns) {
    if (window_ns_ <= 0) return;
    forget(now_ns);
    while (count_ > 0 && past_[count_ - 1].value <= value) --count_;  // this one stays longer
    if (count_ > 0 &&
        (count_ == places || now_ns - past_[count_ - 1].first_ns <= window_ns_ / parts))
      past_[count_ - 1].last_ns = now_ns;
    else
      past_[count_++] = {value, now_ns, now_ns};
  }
  /// Drops what ended a window ago or longer.
  void forget(int64_t now_ns) {
    const auto first = past_.begin();
    const auto end = first + static_cast<ptrdiff_t>(count_);
    const auto kept =
        std::find_if(first, end, [&](const auto& p) { return now_ns - p.last_ns < window_ns_; });
    count_ = static_cast<size_t>(std::move(kept, end, first) - first);
  }
  /// As of the last call of the others; `at_least` where there is no more.
  int64_t most(int64_t at_least) const {
    return count_ > 0 ? std::max(past_[0].value, at_least) : at_least;
  }

 private:
  static constexpr int64_t parts = 8;
  static constexpr size_t places = parts + 4;

  struct past {
    int64_t value = 0;
    int64_t first_ns = 0, last_ns = 0;  ///< when those that are kept as one ended
  };

  int64_t window_ns_;
  std::array<past, places> past_ = {};  ///< falling, oldest first
  size_t count_ = 0;
};

}  // namespace troupe::power
