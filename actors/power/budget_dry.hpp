// What a dry run makes of reports and answers (BGA-9): children are free, and what is decided is as
// if they kept it. So the decisions are those that would have been made, as far as work that is not
// held back can show them.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "actors/power/budget_policy.hpp"
#include "actors/power/lease_policy.hpp"

namespace troupe::power {

struct budget_state;
struct child_account;

/// What a child would have in force by what it says now had it kept what was decided.
int64_t as_if_mw(const child_account& c, const power_report& said);
/// What it would have said then: no more is in force than that, nor drawn.
power_report as_if_kept(power_report said, int64_t as_if_mw);
/// Whether a child has its whole ceiling: not before that is where a life after this one counts it.
bool has_ceiling(const budget_state& st, size_t child);
/// What is granted instead of what is decided. `whole`: the ceiling.
power_grant dry_grant(power_grant decided, const budget_child& to, bool whole);
/// Whether the brake is to be on in a life after this one, where the policy would hold work now.
bool is_pulled_after(const budget_state& st, bool holds_work);

}  // namespace troupe::power
