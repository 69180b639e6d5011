// How watts are shown: what is calculated is marked, what is not known is said to be.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace troupe::apps::power_verb {

/// "~41.0 W"; the mark stands before what is calculated.
inline std::string watts(double w, bool modelled) {
  return w < 0 ? "not known" : fmt::format("{}{:.1f} W", modelled ? "~" : "", w);
}

/// "~41.0 of 44 W", or "not known, of 44 W".
inline std::string watts_of(double w, bool modelled, double budget_w) {
  return w < 0 ? fmt::format("not known, of {:.4g} W", budget_w)
               : fmt::format("{}{:.1f} of {:.4g} W", modelled ? "~" : "", w, budget_w);
}

/// Of milliwatts in a message; -1 stays what it is: not known.
inline double watts_of_mw(int64_t mw) {
  return mw < 0 ? -1 : static_cast<double>(mw) / 1000;
}

/// In JSON; below 0: not known.
inline nlohmann::ordered_json number_or_null(double x) {
  return x < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(x);
}

/// Where watts come from, a word.
inline const char* source_of(double power_w, bool modelled) {
  return power_w < 0 ? "unknown" : modelled ? "modelled" : "measured";
}

}  // namespace troupe::apps::power_verb
