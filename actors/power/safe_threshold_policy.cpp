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
  return std::max(told_ns_, took_.percentile_ns(99).value_or(assumed_ns_));
}

void safe_threshold_policy::acted(int64_t took_ns) {
  took_.add(took_ns);
  widen();
}

void safe_threshold_policy::told(int64_t takes_ns) {
  told_ns_ = std::max(told_ns_, std::clamp<int64_t>(takes_ns, 0, an_hour_ns));
  widen();
}

/// STH-2
void safe_threshold_policy::widen() {
  const auto ticks = ticks_of(p99_ns(), tick_ns_);
  if (ticks <= ticks_) return;
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
