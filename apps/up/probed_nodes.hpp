// What is known of a job's nodes before its first step: how quick they were in earlier runs, and
// what a step is expected to take by what their machines are. Of a job over several machines that
// is what runs on these took, else, where nothing of such work was measured yet, what they were
// probed to do.
//
// Invariants
//   PBN-1  It is told once, when all places of the job have said what their machines do, before the
//     first step or some steps behind it, where these are very short; never where something better
//     is known: what earlier runs here took.
//   PBN-2  What machines a job over several is on is known for its past once all places have told
//     it, and as long as none of them is another kind's (RMA-3).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/job/plan.hpp"
#include "actors/predict/predictor.hpp"
#include "apps/other_machines.hpp"
#include "apps/run_machines.hpp"
#include "apps/up/reporter.hpp"
#include "io/machine/facts.hpp"
#include "io/perf/past_pace.hpp"

namespace troupe::apps {

class probed_nodes {
 public:
  explicit probed_nodes(train::job_plan plan) : plan_(std::move(plan)) {}

  /// What a step is expected to take, once it is known and no earlier call has said it. Nothing of
  /// a job that swaps.
  std::optional<expected_there> hear(const troupe::predict::told_profile& profile);

 private:
  train::job_plan plan_;
  std::vector<std::optional<probed_place>> places_;
  bool is_told_ = false;
};

/// "318 ms a step (190 ms to 1.3 s), by the machines' probes: no step of such work was measured"
std::string probed_text(const expected_there& expected);

/// Says it, and keeps it and what the machines are for the run's summary and its past.
std::function<void(const troupe::predict::told_profile&)> expect_by_profiles(
    const train::job_plan& plan, std::shared_ptr<run_outcome> outcome,
    const io::fact_store& store = {});

/// What predict.prior names, which was looked at when the job's folders were (check_folders): what
/// has become of it since costs the prior alone, and is said. None: the job names none.
std::shared_ptr<gpu::predict::speed_prior> read_prior(const config::job& job);

/// How quick nodes were in earlier runs, as predict.store has it, where they are to split the
/// layers. It is read beside the predictor, which says what is wrong with the file: the start waits
/// for no actor (PRD-1), and does without what cannot be read.
std::vector<io::perf::past_pace> paces_for_split(const train::job_plan& plan);

}  // namespace troupe::apps
