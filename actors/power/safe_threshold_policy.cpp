// Rises, and the time within which they count.
#include "actors/power/safe_threshold_policy.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::power {

namespace {

/// An actuator that takes longer has failed, and is told so elsewhere.
constexpr int64_t an_hour_ns = 3'600'000'000'000;

size_t ticks_of(int64_t actuation_ns, int64_t tick_ns) {
  const double ticks = static_cast<double>(tick_ns + actuation_ns) / static_cast<double>(tick_ns);
  return static_cast<size_t>(std::max(1.0, std::round(ticks)));
}

}  // namespace

safe_threshold_policy::safe_threshold_policy(int64_t tick_ns, int64_t assumed_ns)
    : tick_ns_(tick_ns),
      assumed_ns_(assumed_ns),
      ticks_(ticks_of(assumed_ns, tick_ns)),
      rise_(ticks_) {}

int64_t safe_threshold_policy::p99_ns() const {
  if (measured_ == 0) return assumed_ns_;
  auto sorted = took_ns_;
  const size_t n = std::min(measured_, kept);
  const auto at = (99 * n + 99) / 100 - 1;  // by nearest rank
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(at),
                   sorted.begin() + static_cast<ptrdiff_t>(n));
  return sorted[at];
}

void safe_threshold_policy::acted(int64_t took_ns) {
  took_ns_[measured_++ % kept] = std::clamp<int64_t>(took_ns, 0, an_hour_ns);
  const auto ticks = ticks_of(p99_ns(), tick_ns_);
  if (ticks <= ticks_) return;  // STH-2
  before_ = largest();
  ticks_ = ticks;
  rise_ = largest_rise(ticks);
}

void safe_threshold_policy::read(std::optional<double> power, bool braked) {
  if (power && std::isfinite(*power) && !braked)
    rise_.add(*power);
  else
    rise_.restart();  // STH-1
}

}  // namespace troupe::power
