// How far this process's clock is from the coordinator's, from the round trips of heartbeats
// (Cristian 1989): at half of the round trip the coordinator's clock showed what its answer says,
// and the error is at most the other half.
//
// Invariants
//   CLK-1  The true offset lies within bound_ns of offset_ns, if both clocks drift by at most
//     drift_ppm against each other.
//   CLK-2  The best of the last `window` samples decides: a quick round trip says more than an
//     average of slow ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace troupe::cluster {

/// What to add to this process's clock to have the coordinator's.
struct clock_offset {
  int64_t offset_ns = 0;
  int64_t bound_ns = 0;
};

class clock_estimator {
 public:
  static constexpr size_t window = 16;
  static constexpr int64_t drift_ppm = 100;  ///< twice what NTP allows a crystal

  /// One heartbeat: sent and answered on our clock, in between `there_ns` on the coordinator's.
  void heard(int64_t sent_ns, int64_t there_ns, int64_t answered_ns);

  /// The offset as of now; none before the first sample.
  std::optional<clock_offset> at(int64_t now_ns) const;

 private:
  struct sample {
    int64_t offset_ns = 0, half_trip_ns = 0, taken_ns = 0;
  };
  std::array<sample, window> samples_{};
  size_t count_ = 0;
};

}  // namespace troupe::cluster
