// The job's table in words and as a picture, as docs/job-states.md has them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/train/job_policy.hpp"

namespace troupe::train::test {

/// Names of the states of a rule's mask.
template <class Has>
std::vector<std::string_view> states_that(Has has) {
  std::vector<std::string_view> out;
  for (size_t s = 0; s < job_state_count; ++s)
    if (has(static_cast<job_state>(s))) out.push_back(to_string(static_cast<job_state>(s)));
  return out;
}

/// A row for each rule (Markdown).
inline std::string job_rules_in_words() {
  std::string out = "| heard | in | may lead to | what it is |\n|---|---|---|---|\n";
  for (const auto& rule : job_rules()) {
    const auto from = states_that([&](job_state s) { return rule.is_for(s); });
    const auto to = states_that([&](job_state s) { return rule.may_lead_to(s); });
    out +=
        fmt::format("| {} | {} | {} | {} |\n", name_of_event(rule.event),
                    from.size() + 1 == job_state_count ? "any but ended"
                                                       : fmt::format("{}", fmt::join(from, ", ")),
                    fmt::join(to, ", "), rule.name);
  }
  return out;
}

/// An arrow for each two states (Mermaid); what leads to the end from everywhere is left out.
inline std::string job_picture() {
  std::map<std::pair<size_t, size_t>, std::vector<std::string_view>> arrows;
  for (const auto& rule : job_rules())
    for (size_t from = 0; from < job_state_count; ++from)
      for (size_t to = 0; to < job_state_count; ++to) {
        const auto name = name_of_event(rule.event);
        if (name != "node lost" && rule.is_for(static_cast<job_state>(from)) &&
            rule.may_lead_to(static_cast<job_state>(to)))
          arrows[{from, to}].push_back(name);
      }
  std::string out = "stateDiagram-v2\n  [*] --> admitting\n";
  for (const auto& [ends, events] : arrows)
    out += fmt::format("  {} --> {}: {}\n", to_string(static_cast<job_state>(ends.first)),
                       to_string(static_cast<job_state>(ends.second)), fmt::join(events, ", "));
  return out + "  ended --> [*]\n";
}

}  // namespace troupe::train::test
