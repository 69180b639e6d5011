// The live rows of `troupe bench power` as a table and as JSON, and what is to be reached.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "apps/bench/power_live.hpp"

namespace troupe::apps::power_bench {

/// What is wanted of a measurement, and what was found in rounds that nobody disturbed (BPL-3). NaN
/// where no round tells it: not met.
struct live_verdict {
  double worst_share = 0;   ///< of tight: the most of any stretch in any round; at most most_share
  double mean_share = 0;    ///< of tight, the median: at least least_mean_share
  double cost = 0;          ///< step time of wide over none's of the round, the median; at most
                            ///< most_cost
  double held_after_s = 0;  ///< of cut, the worst; NaN where one was never kept
  double worst_after = 0;   ///< of cut, from there on, the worst
  int disturbed = 0;        ///< runs that were left out
  bool same_bits = false;   ///< every loss of every round
};
inline constexpr double least_mean_share = 0.95, most_cost = 1.005;

live_verdict verdict_of(const live_measurement& m);

std::string text_of(const live_measurement& m);
nlohmann::ordered_json json_of(const live_measurement& m);

}  // namespace troupe::apps::power_bench
