// Small helpers of the report's files; nobody else includes this.
#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace troupe::report {

/// JSON has no NaN and no infinity: they become null.
inline nlohmann::ordered_json finite_or_null(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
}

/// Seconds since 1970, to the millisecond.
inline double unix_time(double s) {
  return std::round(s * 1e3) / 1e3;
}

/// With so many digits; "nan" without the sign that processors give it, "inf", "-inf".
inline std::string fixed(double x, int digits) {
  return std::isnan(x) ? "nan" : fmt::format("{:.{}f}", x, digits);
}

}  // namespace troupe::report
