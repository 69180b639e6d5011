// Periodograms of stretches, and their mean (spectrum.hpp).
#include "actors/power/spectrum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <numbers>
#include <numeric>
#include <vector>

#include <unsupported/Eigen/FFT>

namespace troupe::power {

namespace {

/// Of a stretch, where that shows the lower frequency.
constexpr size_t stretch_samples = 1 << 16;
/// Periods of the lower frequency in a stretch, so that it is told from a slow drift.
constexpr double least_periods = 4;

std::vector<double> hann(size_t n) {
  std::vector<double> out(n);
  for (size_t i = 0; i < n; ++i)
    out[i] = 0.5 -
             0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n));
  return out;
}

}  // namespace

std::optional<band_share> share_of_band(std::span<const double> series, double step_s,
                                        double from_hz, double to_hz) {
  const double least_samples = least_periods / (from_hz * step_s);
  const size_t n =
      std::min(std::bit_floor(series.size()),
               std::max(stretch_samples, std::bit_ceil(static_cast<size_t>(least_samples) + 1)));
  const double highest_hz = 0.5 / step_s;
  if (n < 2 || highest_hz <= from_hz || static_cast<double>(n) < least_samples) return std::nullopt;
  const double mean =
      std::accumulate(series.begin(), series.end(), 0.0) / static_cast<double>(series.size());
  const auto window = hann(n);
  Eigen::FFT<double> transform;
  std::vector<double> stretch(n), power(n / 2 + 1, 0.0);
  std::vector<std::complex<double>> lines;
  const auto add = [&](size_t from) {
    for (size_t i = 0; i < n; ++i) stretch[i] = (series[from + i] - mean) * window[i];
    transform.fwd(lines, stretch);
    for (size_t k = 0; k < power.size(); ++k) power[k] += std::norm(lines[k]);
  };
  for (size_t from = 0; from + n <= series.size(); from += n / 2) add(from);
  if (series.size() % (n / 2) != 0) add(series.size() - n);  // what no stretch has seen to its end

  power.back() /= 2;  // the highest line has no twin
  double all = 0, inside = 0;
  for (size_t k = 1; k < power.size(); ++k) {
    const double hz = static_cast<double>(k) / (static_cast<double>(n) * step_s);
    all += power[k];
    if (hz >= from_hz && hz <= to_hz) inside += power[k];
  }
  // What rounding leaves of a constant varies by nothing.
  const bool varies = all > 1e-18 * mean * mean * static_cast<double>(n);
  return band_share{varies ? inside / all : 0, std::min(to_hz, highest_hz)};
}

}  // namespace troupe::power
