// What a clock does to a simulated device: to how long its operations take, and to what they draw.
//
// The form is that of an A100: a tenth of an operation's time follows no clock, for it is memory's,
// a quarter of the watts is static, and the rest goes with the cube of the clock. Not every device
// is one: what is planned by in a simulation are these devices' own costs.
//
// Pure.
//
// Invariants
//   DCK-1  At the highest clock an operation takes what it takes without clocks, and draws as much.
//     At a lower one it takes longer, at fewer watts.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/power/clock_profile.hpp"

namespace troupe::sim {

struct device_clocks {
  int highest_mhz = 1410, lowest_mhz = 810, apart_mhz = 15;
  double fixed_share = 0.1;           ///< of an operation's time
  double static_share = 110.0 / 470;  ///< of its watts
  int64_t set_ns = 15'000'000;        ///< from the wish for a clock until the device runs at it

  /// Highest first.
  std::vector<int> ladder() const;
  /// How many times as long as at the highest.
  double times_of(int mhz) const {
    return fixed_share + (1 - fixed_share) * highest_mhz / static_cast<double>(mhz);
  }
  /// Of what draws so many at the highest.
  double watts_of(int mhz, double watts) const {
    const double clock = static_cast<double>(mhz) / highest_mhz;
    return watts * (static_share + (1 - static_share) * clock * clock * clock);
  }
  /// What an operation costs at each clock that takes so long, and draws so much, at the highest.
  std::vector<power::clock_row> rows(double time_s, double watts) const;
};

/// What is wrong with what sets the clock of a rank's device.
struct clock_fault {
  int64_t late_ns = 0;  ///< setting takes longer by so much
  int refuses = 0;      ///< for how many reasons it takes no clock, and says so
  int lies = 0;         ///< the same, runs at its lowest, whatever it says
};

}  // namespace troupe::sim
