// The budget: a node of a tree of power budgets, which grants its children leases of watts. Thin: a
// policy decides (budget_policy.hpp).
//
// Messages: PowerReport from children, answered with the tick after it; ReadPowerTree and
// SetPowerBudget from persons.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/power/budget_policy.hpp"
#include "messages/actors.hpp"

namespace troupe::power {

/// A child by the name that it proves, and what the site's configuration gives it.
struct named_child {
  std::string name;
  budget_child terms;
};

struct budget_options {
  std::string name;  ///< "row0"
  budget_rules rules;
  std::vector<named_child> children;
  int64_t budget_mw = 0;
  uint64_t epoch = 1;  ///< greater than that of any life before
  /// Whom the other end of a connection has proved to be; empty: as the book of peers says, of role
  /// power.
  std::function<std::optional<std::string>(const caf::strong_actor_ptr&)> who = {};
  /// Takes a line of the journal, JSON without a newline.
  std::function<void(const std::string&)> journal = {};
};

}  // namespace troupe::power
