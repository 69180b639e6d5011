// A finding as a message, and as a line for a person.
#pragma once

#include <string>

#include "actors/health/findings_policy.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

fbs::FindingT to_message(const finding& f);

/// "frozen_process node1: it sends no heartbeats (4.2 s, at most 3 s)".
std::string line_of(const fbs::FindingT& f);

}  // namespace troupe::health
