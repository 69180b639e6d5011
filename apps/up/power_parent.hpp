// How the head of a job joins the power budget above it (power.parent): where that is, and by which
// key the job proves itself to it.
//
// "auto" is the one that this user serves on this machine, of several the one that has a child of
// the job's name, "auto:NAME" the one of that name: its sign says where it listens and where its
// secret is (apps/power/budget_sign.hpp), of which the job's own key is made. HOST:PORT comes with
// a file that holds the key. Files are read anew each time: a budget that starts again may be
// elsewhere.
//
//   <job.output>/power.incarnation   the number of the job's last process, by which a budget tells
//                                    it from those before
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "actors/power/parent_link.hpp"
#include "io/config/job.hpp"

namespace troupe::apps {

/// Whether power.parent_key, where there is one, is a key of role power that can be read; where the
/// budget is, and whether it is there, is no matter of a start. Errors: those of
/// tls::job_key::read; permission.
status check_power_parent(const config::job& job);

/// Where the budget above the job is now, and the proof for it. Errors: the same; not_found, usage
/// where several budgets fit.
result<power::budget_parent> find_power_parent(const config::job& job);

/// Which process of the job this is, the greatest yet of all that the file has counted: also where
/// the clock has gone back since, but no less than the clock says, so that jobs of one name with
/// other folders are in order as well. Where the file cannot be written the clock has to do.
uint64_t next_incarnation(const std::filesystem::path& file, uint64_t clock_ns);

/// What the pacer joins it by, which counts another process of the job in its output; none: no
/// budget is above the job.
std::optional<power::parent_options> power_parent_of(const config::job& job,
                                                     const reporter_actor& reporter);

}  // namespace troupe::apps
