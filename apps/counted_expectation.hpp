// Which of several expectations of a step's time counts, and why: one for persons and programs, for
// `troupe plan` and `troupe up`.
//
//   1. what runs of this work took on this machine, or where there were none, of other work like
//      it: whole steps, with all that a layer's time leaves out
//   2. what `troupe plan` measured of a layer
//   3. what machines were probed to do (apps/up/probed_nodes.hpp)
//
// Of machines that are not here there are 1, on these machines, and 3: what runs on them took
// counts before what they were probed to do (apps/other_machines.hpp).
//
// What does not count is shown beside it, as what a person may look into: a layer alone says how
// the stages compare, and whether the machine is as quick as it was when those runs were made.
//
// Invariants
//   CEX-1  `plan` and `up` say the same of the same job, by the same order; of a job that was
//     planned here and has no past, `up` says what `plan` did.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "actors/job/plan.hpp"
#include "apps/expected_step.hpp"
#include "apps/other_machines.hpp"
#include "apps/past_steps.hpp"
#include "apps/report/report.hpp"
#include "io/config/job.hpp"
#include "io/machine/facts.hpp"

namespace troupe::apps {

/// By a layer that was measured just now.
struct layer_expectation {
  expected_step step;
  measured_worker worker;
};

/// What `plan` knows of a step of the job; one of them at least.
struct known_expectations {
  std::optional<past_expectation> past = {};
  std::optional<layer_expectation> layer = {};
};

/// Lines with their ends. What counts begins with "expected", and one line says why it does.
std::string counted_text(const train::job_plan& plan, const known_expectations& known);

/// step_s, least_s, most_s, tokens_per_s and run_s are those that count, `counts` says whose they
/// are ("past", "layer"), `why` why; past and layer, what each says.
nlohmann::ordered_json counted_json(const train::job_plan& plan, const known_expectations& known);

/// The same of machines that are not here; past: what runs on them took. Of programs' `layer` the
/// name is `probes` here.
std::string counted_there_text(const train::job_plan& plan, const expected_there& expected,
                               const std::optional<past_expectation>& past);
nlohmann::ordered_json counted_there_json(const train::job_plan& plan, const other_machines& others,
                                          const expected_there& expected,
                                          const std::optional<past_expectation>& past);

/// What a start says behind "expected: ", and its summary at the end.
struct told_expectation {
  std::string text;
  report::expected_ms is;
};
/// CEX-1; nothing is measured for it, and nothing where nothing is known.
std::optional<told_expectation> expected_at_start(const config::job& job, double flops,
                                                  const io::fact_store& store = {});

}  // namespace troupe::apps
