// Small helpers of the report's files; nobody else includes this.
#pragma once

#include <cmath>

#include <nlohmann/json.hpp>

namespace troupe::report {

/// JSON has no NaN and no infinity: they become null.
inline nlohmann::ordered_json finite_or_null(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
}

}  // namespace troupe::report
