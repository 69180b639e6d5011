// The console's word `power`: of a job, and of a served power budget.
#pragma once

#include <string>

#include "apps/control/commands.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// What a job was told that only a power budget can do: the job, and what it was.
inline constexpr error_kind<std::string, std::string> no_power_budget{
    "no_power_budget", errc::not_found, "{} is a job: {}",
    "a served power budget does it: troupe console --job BUDGET, or --connect HOST:PORT"};

/// Whether a job can do it. Errors: no_power_budget.
status is_about_job(const session& s, const commands::power& c);
/// What a job's machines draw, or why it is slow.
result<answer> power_of_job(session& s, const commands::power& c, const answer_form& as);
/// All of it at a power budget. Errors: usage; what the budget answers.
result<answer> tell_power_budget(session& s, const commands::power& c, const answer_form& as);

}  // namespace troupe::apps
