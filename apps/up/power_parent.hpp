// How the head of a job joins the power budget above it (power.parent): where that is, and by which
// key the job proves itself to it.
//
// "auto" is the one that this user serves on this machine: its sign says where it listens and where
// its secret is (apps/power/budget_sign.hpp), of which the job's own key is made. HOST:PORT comes
// with a file that holds the key. Files are read anew each time: a budget that starts again may be
// elsewhere.
#pragma once

#include <optional>

#include "actors/power/parent_link.hpp"
#include "io/config/job.hpp"

namespace troupe::apps {

/// Whether power.parent_key, where there is one, is a key of role power that can be read; where the
/// budget is, and whether it is there, is no matter of a start. Errors: those of
/// tls::job_key::read; permission.
status check_power_parent(const config::job& job);

/// Where the budget above the job is now, and the proof for it. Errors: the same; not_found, usage
/// where several budgets are served.
result<power::budget_parent> find_power_parent(const config::job& job);

/// What the pacer joins it by; none: no budget is above the job.
std::optional<power::parent_options> power_parent_of(const config::job& job,
                                                     const reporter_actor& reporter);

}  // namespace troupe::apps
