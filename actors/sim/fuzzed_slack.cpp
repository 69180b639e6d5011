// Random clusters whose job takes slack.
#include <algorithm>
#include <array>
#include <utility>

#include "actors/sim/simulation.hpp"

namespace troupe::sim {

namespace {

constexpr int64_t ns_of_ms_of_slack = 1'000'000;

/// Of them, those that are drawn here: what touches clocks, who is slow for a while, and who dies
/// while a plan is in force or clocks are tried.
constexpr std::array of_slack{
    fault_kind::actuator_late, fault_kind::actuator_lies, fault_kind::slow_device,
    fault_kind::slow_section,  fault_kind::kill_actor,    fault_kind::crash_node,
    fault_kind::freeze_node,   fault_kind::pause_run,     fault_kind::save_now};

/// Stages that are not alike, of operations as long as setting a clock takes, or longer; and of
/// updates that are some hundredths of a step: shorter parts nobody judges (blame_policy).
void draw_stages(simulation_options& o, rng& random) {
  const auto in_ns = [](double of_ms) { return static_cast<int64_t>(of_ms * ns_of_ms_of_slack); };
  const double forward_ms = 40 + 60 * random.unit();
  o.times.update_ns = in_ns(forward_ms);
  for (int s = 0; s < o.pipeline; ++s) {
    const double ms = forward_ms * (0.85 + 0.3 * random.unit());
    o.times.stages.push_back({in_ns(ms), in_ns(1.9 * ms), o.times.update_ns, o.times.save_ns});
  }
}

int64_t longest_step_ns(const simulation_options& o) {
  int64_t most_ns = 0;
  for (const auto& s : o.times.stages) most_ns = std::max(most_ns, s.forward_ns + s.backward_ns);
  return (o.micro_batches + o.pipeline - 1) * most_ns;
}

void draw_faults_of_slack(simulation_options& o, const std::vector<fault_kind>& kinds,
                          rng& random) {
  std::vector<fault_kind> drawn;
  for (const auto kind : of_slack)
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) drawn.push_back(kind);
  if (drawn.empty() || random.chance(0.3)) return;
  const auto step_ns = longest_step_ns(o);
  for (auto left = random.between(1, 3); left > 0; --left) {
    fault f;
    f.kind = drawn[random.below(drawn.size())];
    f.at_ns = step_ns * random.between(0, o.steps);
    f.lasts_ns = step_ns * random.between(1, 30);
    f.random = random.next();
    o.faults.push_back(f);
  }
  std::stable_sort(o.faults.begin(), o.faults.end(),
                   [](const fault& a, const fault& b) { return a.at_ns < b.at_ns; });
}

}  // namespace

simulation_options fuzzed_slack(uint64_t seed, const std::vector<fault_kind>& kinds) {
  rng random(mix(seed ^ 0x736c61636b));
  simulation_options o;
  o.seed = seed;
  o.slack = true;
  o.monitored = true;
  o.slack_by = random.chance(0.5) ? slack_from::measured : slack_from::profile;
  o.pipeline = 2 << random.below(2);
  const auto ranks = o.pipeline * static_cast<int>(random.between(1, 3));
  o.workers = random.chance(0.3) ? 2 : 1;
  o.nodes = ranks / o.workers;
  o.micro_batches = static_cast<int>(random.between(2, 6));
  o.steps = static_cast<int>(random.between(60, 160));
  o.checkpoint_every = static_cast<int>(random.below(2) * random.between(10, 40));
  o.when_busy = config::when_busy::skip;
  o.heartbeat_ms = random.between(100, 500);
  o.suspect_after_ms = 3 * o.heartbeat_ms;
  o.dead_after_ms = 8 * o.heartbeat_ms;
  o.meter_ms = random.between(100, 500);
  o.recovers = random.chance(0.6);
  o.times.jitter = 0.02 * random.unit();
  o.mailbox_limit = 1024;
  draw_stages(o, random);
  draw_faults_of_slack(o, kinds, random);
  return o;
}

}  // namespace troupe::sim
