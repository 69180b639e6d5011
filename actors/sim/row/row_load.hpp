// When requests come to a simulated row: a profile of the day or week, a slow noise on it, and a
// Poisson process thinned by both.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/sim/rng.hpp"
#include "actors/sim/row/row_model.hpp"

namespace troupe::sim {

inline constexpr double row_bin_s = 600;         ///< of a profile
inline constexpr double row_utilisation = 0.80;  ///< of a pool's servers, at the profile's maximum

/// Requests by time of a day, for whom has no trace: quiet at night, two humps by day. Its maximum
/// is 1; bins of `row_bin_s`.
std::vector<double> daily_profile();

/// The load of each bin of so many weeks: the profile, over and over, of its maximum, times a noise
/// that is the same for all policies and seeds; never below 0.02. The profile has a bin that is
/// above 0.
std::vector<double> load_of(const std::vector<double>& profile, int weeks);

/// Requests of one pool, in the order they come.
class row_arrivals {
 public:
  /// `load` outlives it. `servers` is above 0.
  row_arrivals(row_class c, int servers, const std::vector<double>& load, rng chance);

  int64_t next_ns() const { return next_ns_; }
  /// The request that comes at next_ns(), and on to the next.
  row_request take();

 private:
  void find_next();

  row_class class_;
  const std::vector<double>& load_;
  rng chance_;
  double most_load_ = 0, most_rate_ = 0;  ///< requests a second
  double t_s_ = 0;
  int64_t next_ns_ = 0;
};

}  // namespace troupe::sim
