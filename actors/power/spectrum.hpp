// How the variance of a series is spread over frequencies.
//
// Welch's method (1967): the mean periodogram of overlapping stretches under a Hann window, by
// Eigen's transform.
#pragma once

#include <optional>
#include <span>

namespace troupe::power {

/// What part of a series' variance lies in a band.
struct band_share {
  double share = 0;    ///< of the variance; 0 where nothing varies
  double seen_hz = 0;  ///< up to which frequency: half of the sampling rate, where that is lower
};

/// Of a series sampled every `step_s`, between two frequencies. Nothing where samples are too far
/// apart or too few to see the lower one: SWG-1 of swings.hpp.
std::optional<band_share> share_of_band(std::span<const double> series, double step_s,
                                        double from_hz, double to_hz);

}  // namespace troupe::power
