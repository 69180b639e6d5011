// Checks in words: of `troupe doctor`, and of the examination that a finding led to.
#pragma once

#include <string>

#include "messages/schemas/health_generated.h"

namespace troupe::health {

/// "3.1 MB/s", "8 MiB", "19.1 us", "0 errors"; "-": below 0, nothing.
std::string value_text(double value, const std::string& unit);

/// ">= 500.0 MB/s (floor)"; "-": nothing in particular.
std::string wanted_text(const fbs::CheckResultT& c);

/// What examining a machine showed, one sentence without a full stop: what is bad of it, or that
/// nothing is.
std::string report_text(const fbs::CheckupReportT& r);

}  // namespace troupe::health
