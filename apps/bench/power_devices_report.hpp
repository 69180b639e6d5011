// A job of many devices under a budget that falls (power_devices.hpp), as a table and as JSON.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "apps/bench/power_devices.hpp"

namespace troupe::apps::power_bench {

/// Of the best uniform clock in hindsight: what is wanted of one clock for all ranks, at least.
inline constexpr double least_of_best = 0.97;

std::string text_of(const devices_measurement& m);
nlohmann::ordered_json json_of(const devices_measurement& m);

}  // namespace troupe::apps::power_bench
