// The shared rows of `troupe bench power` as a table and as JSON, and what is to be reached.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "apps/bench/power_shared.hpp"

namespace troupe::apps::power_bench {

/// What is wanted, and what was found in rounds that nobody disturbed (BPS-1). NaN where such a
/// round does not tell it, or there is none: not met.
struct shared_verdict {
  double worst_share = 0;  ///< of any stretch under any budget: at most most_share
  double mean_share = 0;   ///< of equal, the median: at least least_mean_share
  double speed = 0;        ///< of prior's first job over that of free's, the median of rounds: at
                           ///< least least_speed
  int disturbed = 0;       ///< runs that were left out
  bool same_bits = false;  ///< every loss of every job
};
inline constexpr double least_speed = 0.95;

shared_verdict verdict_of(const shared_measurement& m);

std::string text_of(const shared_measurement& m);
nlohmann::ordered_json json_of(const shared_measurement& m);

}  // namespace troupe::apps::power_bench
