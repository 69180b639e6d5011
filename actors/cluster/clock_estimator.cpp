// The sample with the smallest error today.
#include "actors/cluster/clock_estimator.hpp"

#include <algorithm>

namespace troupe::cluster {

void clock_estimator::heard(int64_t sent_ns, int64_t there_ns, int64_t answered_ns) {
  if (answered_ns < sent_ns) return;  // no clock runs backwards: not an answer to this beat
  const int64_t half = (answered_ns - sent_ns + 1) / 2;
  samples_[count_++ % window] = {there_ns - (sent_ns + half), half, answered_ns};
}

std::optional<clock_offset> clock_estimator::at(int64_t now_ns) const {
  std::optional<clock_offset> best;
  for (size_t i = 0; i < std::min(count_, window); ++i) {
    const auto& s = samples_[i];
    const int64_t drift = (now_ns - s.taken_ns) / 1'000'000 * drift_ppm;
    const int64_t bound = s.half_trip_ns + std::max<int64_t>(0, drift);
    if (!best || bound < best->bound_ns) best = clock_offset{s.offset_ns, bound};
  }
  return best;
}

}  // namespace troupe::cluster
