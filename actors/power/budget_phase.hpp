// A budget's children shifted against each other: what their reports say of that, what is decided,
// and what answers and persons are told. Who decides is a policy (phase_policy.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "actors/power/budget.hpp"

namespace troupe::power {

/// Of a report that was taken.
void hear_beat(budget_state& st, size_t child, const fbs::PowerReport& said, int64_t now_ns);
/// Once a tick, after leases were decided.
void decide_offsets(budget_state& st, const budget_decision& decided, int64_t now_ns);
/// In an answer to the child.
void tell_offset(const budget_state& st, size_t child, int64_t now_ns, fbs::PowerGrantT& into);
/// As a person is shown it.
void show_offset(const budget_state& st, size_t child, int64_t now_ns, fbs::PowerChildT& into);

}  // namespace troupe::power
