// Prometheus's text format: https://prometheus.io/docs/instrumenting/exposition_formats/
//
// Files of several jobs and budgets are read together by node_exporter, which refuses a name with
// two help texts: what two of them tell has its help here.
#pragma once

#include <string>

#include <fmt/format.h>

#include "io/base/result.hpp"

namespace troupe::apps::power_verb {

inline constexpr const char* budget_watts_name = "troupe_power_budget_watts";
inline constexpr const char* budget_watts_help = "What may be drawn together.";

/// Errors: usage where both are asked for.
inline status one_format(bool json, bool prometheus) {
  if (!json || !prometheus) return {};
  return error{errc::usage, "--prometheus has no meaning with --json", "leave one of the two out"};
}

/// Before its samples: what a name means.
inline std::string metric_family(const char* name, const char* kind, const char* help) {
  return fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, kind, help);
}

/// A label's value, as the format wants it escaped.
inline std::string label_value(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + '"';
}

}  // namespace troupe::apps::power_verb
