// The budget above a budget, as the one below knows it: what it reports there of its children, and
// what it has by what it hears. How it is reached: parent_link.hpp; what holds then:
// node_lease_policy.hpp.
//
// Invariants
//   NDP-1  A budget is no child of itself: one of its own name is not heard, nor itself, by
//     whatever address it was reached. What it would be granted so is its own.
//   NDP-2  A budget above that would let it have less than its children fall to by themselves
//     grants it nothing that it takes: nobody would cover them.
//   NDP-3  It tells all machines of its children, and its children are told who shares one above,
//     too (shared_machines.hpp).
//   NDP-4  Its brake can be pulled from above where all who work below it can be held.
#pragma once

#include <string>
#include <utility>

#include "actors/power/node_lease_policy.hpp"
#include "actors/power/parent_link.hpp"
#include "io/base/error_kind.hpp"

namespace troupe::power {

/// The budget: NDP-1.
inline constexpr error_kind<std::string> own_parent{
    "own_parent", errc::bad_config, "{0} cannot be its own parent",
    "name another budget as the parent of {0}, or give one of the two another name"};
/// The budget above, its child, what that has there without a lease, and what its own have: NDP-2.
inline constexpr error_kind<std::string, std::string, double, double> uncovered_static_shares{
    "uncovered_static_shares", errc::bad_config,
    "{0} gives {1} a static_w of {2}, and the static shares of its children are {3} W together",
    "children fall to them by themselves: give {1} a static_w of {3} in the file of {0}"};

/// How the budget above is known.
struct node_parent : parent_link {
  node_parent(parent_options o, int64_t shares)
      : parent_link(std::move(o)), shares_mw(shares), lease(options.incarnation, shares) {}

  int64_t shares_mw;  ///< of its children, together
  node_lease_policy lease;
  std::string brake_of = {};   ///< the budget whose brake is on above; empty: it does not say
  machine_counts shared = {};  ///< NDP-3
  own_cap told = {0, false};   ///< by the journal
};

struct budget_state;
using budget_pointer = traced_pointer<budget_actor, budget_state>;

/// As it calls itself; until it has been heard, as the budget's configuration names it.
const std::string& name_of_parent(const parent_link& l);

/// From now on the budget has one above it.
void begin_node_parent(budget_pointer self, const parent_options& options);
/// What the budget has now: of its lease, its configuration and persons the least.
own_cap own_cap_of_now(budget_pointer self);
/// Connects, or reports, where that is due.
void report_above(budget_pointer self);

}  // namespace troupe::power
