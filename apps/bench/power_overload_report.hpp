// The overload rows of `troupe bench power` as a table and as JSON, and what is to be reached.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/bench/power_overload.hpp"

namespace troupe::apps::power_bench {

/// Of a way. NaN where no case tells it: not met; infinite as BPO-3 says.
struct overload_times {
  double median_s = 0, p99_s = 0, worst_s = 0;
  bool is_met = false;  ///< p99_s is at most what is wanted
};

/// What is wanted, and what was found.
struct overload_verdict {
  double wanted_s = 0;  ///< telemetry, the longest operation, and overload_slack_s
  std::vector<overload_times> ways;
  bool same_bits = false;  ///< every loss of both jobs
};
inline constexpr double overload_slack_s = 0.1;

overload_verdict verdict_of(const overload_measurement& m);

std::string text_of(const overload_measurement& m);
nlohmann::ordered_json json_of(const overload_measurement& m);

}  // namespace troupe::apps::power_bench
