// What `troupe plan` expected of a job's steps, kept as a fact of this machine until another job is
// planned (io/machine/facts.hpp): so that who runs the job then is told what came of it.
//
// Nothing is measured for that when a job starts. What is kept is of a job by all that decides how
// long its steps take: of another model, batch or layout nothing is said.
#pragma once

#include <optional>

#include "apps/report/report.hpp"
#include "io/config/job.hpp"
#include "io/machine/facts.hpp"

namespace troupe::apps {

/// Keeps what a step of the job should take. Its parallel.layers are those of the plan.
void keep_expectation(const config::job& job, const report::expected_ms& expected,
                      const io::fact_store& store = {});

/// What was kept of such a job, if it was the last that was planned here, and not long ago.
std::optional<report::expected_ms> kept_expectation(const config::job& job,
                                                    const io::fact_store& store = {});

}  // namespace troupe::apps
