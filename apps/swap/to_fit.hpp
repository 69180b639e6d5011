// Of a job that does not fit into memory: how long its steps would take if it swapped, for
// `troupe plan`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "actors/train/swap_to_fit.hpp"

namespace troupe::apps::swap {

struct timed_way {
  train::swap_to_fit way;
  /// What a step takes, and at least; none where rates are not measured, or all of it would fit.
  std::optional<double> expected_s = {}, limit_s = {};
};

/// For processes of so many bytes, 0 where swapping is no way out; with seconds where the way has
/// room on the drive and `measures`.
std::optional<timed_way> time_swapping_to_fit(const train::job_plan& plan, uint64_t process_bytes,
                                              bool measures);

/// "--set swap.dir=run/swap --set swap.host_bytes=1073741824 makes it fit: 66 s a step expected, 61
/// at least", a line.
std::string timed_text(const timed_way& t);
nlohmann::ordered_json timed_json(const timed_way& t);

}  // namespace troupe::apps::swap
