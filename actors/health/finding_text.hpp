// A finding as a message, and as a line for a person.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "actors/health/findings_policy.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

fbs::FindingT to_message(const finding& f);

/// What a message tells of: who, and what shows it. None where its name is none of findings.hpp's.
std::optional<std::pair<subject, evidence>> finding_in(const fbs::FindingT& f);

/// "frozen_process node1: it sends no heartbeats (4.2 s, at most 3 s)".
std::string line_of(const fbs::FindingT& f);

}  // namespace troupe::health
