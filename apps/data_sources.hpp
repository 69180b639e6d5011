// What a job trains on, as `troupe plan` and `troupe config check` say it in JSON.
//
// Why here: both say it alike, the one of the configuration alone, the other of what it has read.
#pragma once

#include <span>

#include <nlohmann/json_fwd.hpp>

#include "actors/train/inputs.hpp"

namespace troupe::apps {

/// An array, one object each: its name where it has one, its paths, weight and share of all
/// windows; tokens, windows and passes where they are counted.
nlohmann::ordered_json sources_json(std::span<const train::source_share> shares);

}  // namespace troupe::apps
