// Place by place, until all have come.
#include "apps/up/probed_nodes.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "actors/predict/past_paces_policy.hpp"
#include "actors/train/memory_estimate.hpp"
#include "apps/past_steps.hpp"
#include "apps/talk.hpp"
#include "io/perf/part_times.hpp"
#include "trace/text.hpp"

namespace troupe::apps {

namespace {

/// The first steps of a small model are made before a profile has come; of a run that goes on for
/// long already nobody asks what it is expected to take.
constexpr size_t steps_of_beginning = 10;

/// PBN-2. True: all places have told by now, this one as the last.
bool hear_machine(told_places& places, const troupe::predict::told_profile& profile,
                  run_outcome& outcome) {
  const bool are_known = places.hear(profile.place, {profile.host, profile.profile});
  std::lock_guard lock(outcome.mutex);
  outcome.machines = places.machines();
  return are_known;
}

/// PBN-1.
void tell(run_outcome& outcome, const report::expected_ms& is, const std::string& text) {
  {
    std::lock_guard lock(outcome.mutex);
    const bool is_new = outcome.summary.losses.size() < steps_of_beginning;
    if (outcome.summary.expected || !is_new) return;
    outcome.summary.expected = is;
  }
  say("expected: " + text);
}

}  // namespace

std::optional<expected_there> probed_nodes::hear(const troupe::predict::told_profile& profile) {
  const auto places = static_cast<size_t>(plan_.job.cluster.places());
  if (is_told_ || !plan_.job.swap.dir.empty() || profile.place >= places) return std::nullopt;
  places_.resize(places);
  places_[profile.place] = probed_place{profile.host, {profile.node, profile.profile}};
  const auto is_there = [](const auto& place) { return place.has_value(); };
  if (!std::ranges::all_of(places_, is_there)) return std::nullopt;
  is_told_ = true;
  std::vector<probed_place> all;
  for (const auto& place : places_) all.push_back(*place);
  const auto others = others_of(all, plan_);
  if (!others) return std::nullopt;  // a probe that is needed was not made in time
  return expect_there(plan_, train::plan_stages(plan_), *others, std::nullopt);
}

std::string probed_text(const expected_there& expected) {
  const auto text = [](double seconds) {
    return trace::duration_text(std::llround(1e9 * seconds));
  };
  const auto& s = expected.step;
  return fmt::format(
      "{} a step ({} to {}), by the machines' probes: no step of such work was "
      "measured",
      text(s.step_s), text(s.least_s), text(s.most_s));
}

std::function<void(const troupe::predict::told_profile&)> expect_by_profiles(
    const train::job_plan& plan, std::shared_ptr<run_outcome> outcome,
    const io::fact_store& store) {
  const bool is_here = plan.job.cluster.launch == config::launch_mode::local;
  return [plan, is_here, store, places = std::make_shared<told_places>(plan.job),
          nodes = std::make_shared<probed_nodes>(plan),
          outcome = std::move(outcome)](const troupe::predict::told_profile& profile) {
    if (!is_here && hear_machine(*places, profile, *outcome))
      if (const auto past =
              expect_by_past(plan.job, train::flops_of_step(plan), store, places->machines()))
        tell(*outcome, as_expected_ms(*past), past_text(*past));
    if (profile.profile == io::perf::hw_profile{}) return;  // it was not probed
    if (const auto expected = nodes->hear(profile)) {
      const auto& s = expected->step;
      tell(*outcome, {1e3 * s.step_s, 1e3 * s.least_s, 1e3 * s.most_s, true},
           probed_text(*expected));
    }
  };
}

std::shared_ptr<gpu::predict::speed_prior> read_prior(const config::job& job) {
  if (job.predict.prior.empty()) return nullptr;
  auto prior = gpu::predict::speed_prior::read(job.predict.prior);
  if (prior) return std::make_shared<gpu::predict::speed_prior>(std::move(*prior));
  say("warning: done without predict.prior: " + render(prior.error()));
  return nullptr;
}

std::vector<io::perf::past_pace> paces_for_split(const train::job_plan& plan) {
  if (!plan.job.predict.enabled || !train::is_split_open(plan.job)) return {};
  const auto kept = io::perf::read_part_times(troupe::predict::store_of(plan.job));
  if (!kept) return {};
  return troupe::predict::past_paces(kept->times, plan.job, plan.model);
}

}  // namespace troupe::apps
