// What a dry run makes of reports and answers (BGA-9): children are free, and what is decided is as
// if they kept it. So the decisions are those that would have been made, as far as work that is not
// held back can show them.
//
// Pure.
#pragma once

#include "actors/power/budget_policy.hpp"
#include "actors/power/lease_policy.hpp"

namespace troupe::power {

struct child_account;

/// What a child would have said had it kept what was decided: no more is in force than that, nor
/// drawn.
power_report as_if_kept(child_account& c, power_report said);
/// What is granted instead of that.
power_grant whole_grant(power_grant decided, const budget_child& to);

}  // namespace troupe::power
