// The parts of a job whose machines hang on several power budgets, as lines for a person, as JSON
// and as Prometheus's text.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "messages/schemas/status_generated.h"

namespace troupe::apps::power_verb {

/// A line each: "rack0 feeds node0, node1: ~41.0 of 44 W, lease 3.1 s, which leaves 93 % of full
/// speed"; empty: all its machines hang on one.
std::vector<std::string> rack_lines(const fbs::PacerStatusT& p);

/// An object each.
nlohmann::ordered_json racks_json(const fbs::PacerStatusT& p);

/// Caps and leases, labelled by job and parent: of each rack, or of the one budget above.
std::string caps_prometheus(const std::string& job, const fbs::PacerStatusT& p);

}  // namespace troupe::apps::power_verb
