// Look-ups in the list.
#include "io/base/findings.hpp"

#include <string>

#include "io/base/text.hpp"

namespace troupe::health {

std::optional<finding_name> find_finding(std::string_view name) {
  for (size_t i = 0; i < finding_table.size(); ++i)
    if (finding_table[i].name == name) return static_cast<finding_name>(i);
  return std::nullopt;
}

std::string_view nearest_finding(std::string_view name) {
  std::array<std::string_view, finding_table.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = finding_table[i].name;
  const auto near = nearest(name, names);
  for (const auto known : names)
    if (known == near) return known;
  return {};
}

}  // namespace troupe::health
