// The T2 that a row's own rises and its own actuators allow, measured while the row runs.
//
// T2 must leave free what power may rise before clocks have followed: the largest rise within a
// reading and an actuation (brief of POLCA: T2 <= 100 % less that). A row's rises and an actuator's
// delays are not those of the paper, so both are measured: rises by readings, delays from a command
// to its seen effect, of which the 99th percentile of the last `kept` counts.
//
// Pure.
//
// Invariants
//   STH-1  No rise is from before a gap to behind it: a reading that is missing, or one with the
//     brake or its release in it.
//   STH-2  What has been measured is not taken back: the time within which rises count may grow,
//     and does not shrink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "actors/power/largest_rise.hpp"
#include "actors/power/row_policy.hpp"
#include "io/base/recent_delays.hpp"

namespace troupe::power {

class safe_threshold_policy {
 public:
  static constexpr size_t kept = recent_delays::kept;

  /// `assumed_ns`: the actuation until one has been measured. `tick_ns` is from a reading to the
  /// next.
  safe_threshold_policy(int64_t tick_ns, int64_t assumed_ns);

  /// A command's effect was seen so long after it.
  void acted(int64_t took_ns);
  /// A child has measured as much, of its own commands.
  void told(int64_t takes_ns);
  /// Once a tick: a share of the budget; none: no reading came. `braked`: the brake is not off.
  void read(std::optional<double> power, bool braked);

  /// Of the actuations measured last; what was assumed until there is one. No less than was told.
  int64_t p99_ns() const;
  /// Within a reading and an actuation; 0 where nothing rose.
  double largest() const { return rise_.most() > before_ ? rise_.most() : before_; }
  /// The greatest T2 that leaves that free.
  double safe_t2() const { return power::safe_t2(largest()); }

 private:
  void widen();

  int64_t tick_ns_, assumed_ns_;
  int64_t told_ns_ = 0;
  recent_delays took_;
  size_t ticks_;
  largest_rise rise_;
  double before_ = 0;  ///< seen within a shorter time
};

}  // namespace troupe::power
