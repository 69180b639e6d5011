// Whose checkpoints a folder holds: the last job that saved there, by name, model and data.
//
// Why: two jobs with one folder would set each other's checkpoints aside at every start, and go on
// with each other's weights.
//
// Invariants
//   OWR-1  A job starts in a folder whose newest line another job saved only where it is told to
//     (checkpoint.adopt); nothing in the folder is changed before that is known.
#pragma once

#include <optional>
#include <string>

#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::checkpoint {

/// In what `saved`, the job a checkpoint was saved by, is another job than `now`: "its name is a,
/// not b"; nothing where it is the same. Pure.
std::optional<std::string> other_job(const config::job& saved, const config::job& now);

/// bad_config where a folder of checkpoints of this job holds another job's (OWR-1), unless it is
/// adopted. What says nothing of its job (an import) is anybody's.
status check_owner(const config::job& job);

}  // namespace troupe::checkpoint
