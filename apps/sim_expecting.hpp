// What it costs a head to hold each part of each rank's step against what it was
// (actors/health/blame_policy.hpp), for `troupe sim --scale`.
//
// Simulated clusters have no monitor, and simulated ranks tell of no parts. So steps of as many
// ranks are made up here, of a rank in the middle of a pipeline with replicas, and given to the
// policy as the monitor gives them, from the message on. Making up and sending them is not counted.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "io/base/rank_grid.hpp"

namespace troupe::apps {

/// Of all steps, and of one rank.
struct expecting_cost {
  double cpu_s = 0;
  uint64_t bytes_per_rank = 0;  ///< at most, of the heap; 0: it does not say (a sanitizer's)
  bool operator==(const expecting_cost&) const = default;
};

expecting_cost cost_of_expecting(const rank_grid& grid, uint64_t steps);

/// `without_s`: processor time of all else.
std::string expecting_text(const expecting_cost& cost, double without_s);
nlohmann::ordered_json expecting_json(const expecting_cost& cost, double without_s);

}  // namespace troupe::apps
