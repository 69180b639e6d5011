// When a head that stands by, and hears of none that acts, says that it still waits.
//
// Invariants
//   WAI-1  Not before it has heard of none for the patience; a head that is heard of begins that
//     anew.
//   WAI-2  Each pause is twice the one before, up to `steady_pause_ns`: who waits for a day has
//     said so some thirty times.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace troupe::heads {

class waiting_policy {
 public:
  static constexpr int64_t steady_pause_ns = 3'600'000'000'000;

  waiting_policy(int64_t patience_ns, int64_t now_ns) : patience_ns_(patience_ns) { heard(now_ns); }

  void heard(int64_t now_ns) {
    since_ns_ = now_ns;
    pause_ns_ = patience_ns_;
    next_ns_ = now_ns + pause_ns_;
  }
  /// For how long none has been heard of, where that is to be said now.
  std::optional<int64_t> due(int64_t now_ns) {
    if (now_ns < next_ns_) return std::nullopt;
    pause_ns_ = std::min(2 * pause_ns_, std::max(steady_pause_ns, patience_ns_));
    next_ns_ = now_ns + pause_ns_;
    return now_ns - since_ns_;
  }

 private:
  int64_t patience_ns_;
  int64_t since_ns_ = 0, pause_ns_ = 0, next_ns_ = 0;
};

}  // namespace troupe::heads
