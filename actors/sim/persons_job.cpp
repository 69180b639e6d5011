// What of a person's job is simulated.
#include "actors/sim/persons_job.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>

#include "actors/sim/slack_job.hpp"
#include "actors/sim/swapped_job.hpp"
#include "actors/train/memory_estimate.hpp"

namespace troupe::sim {

namespace {

constexpr double planned_unit_ns = 1e9;
/// Virtual time is counted in nanoseconds of 64 bits, which end after 292 years: work of less than
/// one leaves room for times_planned of it, and for launches that follow.
constexpr double virtual_year_ns = 365.0 * 24 * 3600 * planned_unit_ns;
/// More ranks than this take minutes for a step, and the memory of a large machine.
constexpr int64_t ranks_at_once = 16'384;
/// In larger clusters, looking after each message takes more time than all else.
constexpr uint32_t looked_after = 1'024;
/// With many nodes a fit takes up to a second, and one may be due after each step.
constexpr uint32_t learned_of = 64;
/// That may wait for the head at once.
constexpr uint32_t words_of_a_rank = 64;
/// A launch is slower than planned where faults make it so, and makes steps again.
constexpr int64_t times_planned = 20;

struct key_fate {
  std::string_view prefix;
  std::string_view why;  ///< empty: it is simulated, or changes nothing here
};

constexpr std::string_view no_weights =
    "nothing is learned: losses are made up and follow from the step's number";
constexpr std::string_view no_processes =
    "no process is started and nothing is connected: the nodes are simulated in this process";
constexpr std::string_view small_state =
    "ranks save a small state into memory, for as long as their shares would take";

constexpr std::string_view again_or_spilled =
    "simulated layers compute their activations again, or spill as swap.spill_layers says";
constexpr std::string_view own_clocks =
    "simulated devices take and draw at each clock what those of one form do (--slack)";
constexpr std::string_view both_ways =
    "drives read and write at full speed at once; operations take the times that are said here";

/// The first that begins a key is its fate.
constexpr auto fates = std::to_array<key_fate>({
    {"job.seed", "what happens follows from --seed"},
    {"job.", ""},
    {"cluster.device", "no device computes: operations take the times that are said here"},
    {"cluster.threads", "no thread computes: operations take the times that are said here"},
    {"cluster.launch", no_processes},
    {"cluster.listen", no_processes},
    {"cluster.port", no_processes},
    {"cluster.advertise", no_processes},
    {"cluster.insecure", no_processes},
    {"cluster.clear_text_tensors", no_processes},
    {"cluster.ssh_command", no_processes},
    {"cluster.remote_binary", no_processes},
    {"cluster.tls", no_processes},
    {"cluster.", ""},
    {"model.path", "no weights are read: the folder says only how much work a step is"},
    {"model.init", no_weights},
    {"model.dropout", no_weights},
    {"model.", ""},
    {"data.", "no text is read: ranks read 4,096 made-up tokens"},
    {"train.steps", ""},
    {"train.batch", ""},
    {"train.micro_batch", ""},
    {"train.seq_len", ""},
    {"train.validate_", ""},
    {"train.", no_weights},
    {"parallel.placement", "the simulated machines are alike"},
    {"parallel.", ""},
    {"checkpoint.resume", "the simulated job begins from nothing"},
    {"checkpoint.adopt", "the simulated job begins from nothing"},
    {"checkpoint.ring_bytes", small_state},
    {"checkpoint.slot_bytes", small_state},
    {"checkpoint.export_model", small_state},
    {"checkpoint.second.bytes_per_second", small_state},
    {"checkpoint.memory.", "ranks keep no copies in memory: recoveries read checkpoints"},
    {"checkpoint.", ""},
    {"swap.verify", small_state},
    {"swap.device_bytes", "no device computes: what swaps does so in the host's memory"},
    {"swap.consume", "the simulated job begins from nothing"},
    {"swap.keep_layers", again_or_spilled},
    {"swap.half_layers", again_or_spilled},
    {"swap.rates.duplex", both_ways},
    {"swap.rates.flops_s", both_ways},
    {"swap.rates.updates_s", both_ways},
    {"swap.rates.processor_", both_ways},
    {"swap.", ""},
    {"timeouts.", ""},
    {"predict.store", "what is learned of simulated steps is not kept"},
    {"predict.probe", "simulated machines are not probed"},
    {"predict.prior", "simulated machines have no hardware that a prior could be asked by"},
    {"predict.", ""},
    {"recovery.on_spike", no_weights},
    {"recovery.spike_steps_back", no_weights},
    {"recovery.", ""},
    {"health.digest_every", no_weights},
    {"health.recheck_every", no_weights},
    {"health.spike_deviations", no_weights},
    {"health.log_rule", "simulated nodes write no log"},
    {"health.", ""},
    {"power.meter_interval_ms", ""},
    {"power.slack", ""},
    {"power.profile", own_clocks},
    {"power.blocking_w", own_clocks},
    {"power.control", own_clocks},
    {"power.parent",
     "simulated devices draw as one GPU does: --power-parent-w has a power budget above the job"},
    {"power.", "simulated devices draw as one GPU does: --budget-w gives the job a budget"},
    {"log.", ""},
    {"inject", "drills are for real processes; --fault makes faults of a simulated one"},
});

/// At most a year, which no job may take.
int64_t planned_ns(double seconds) {
  return static_cast<int64_t>(std::clamp(seconds * planned_unit_ns, 1.0, virtual_year_ns));
}

/// PJB-2.
stage_timing times_of(const train::planned_stage& s, const train::job_plan& plan,
                      const worker_pace& pace) {
  const auto takes = train::seconds_of(s, plan, pace.flops_s, pace.updates_s);
  return {planned_ns(takes.forward), planned_ns(takes.backward), planned_ns(takes.update),
          planned_ns(static_cast<double>(s.share_bytes) / pace.saved_bytes_s)};
}

/// Its drives are slower by as much as the simulated state is smaller than the job's.
status be_swapping(const train::job_plan& plan, simulation_options& o) {
  o.swap = swap_of(plan);
  if (!o.swap.any()) return {};
  TROUPE_TRY(job, simulated_job(o));
  TROUPE_TRY(simulated, train::make_plan(job));
  scale_drives(o.swap, simulated, plan);
  return {};
}

/// What a simulation of several heads lacks besides.
constexpr auto without_heads = std::to_array<key_fate>({
    {"swap.", "with several heads ranks have their whole state in memory"},
    {"checkpoint.second.", "several heads are simulated with one tier of checkpoints"},
    {"predict.enabled", "several heads are simulated without predictors"},
    {"power.slack", "several heads are simulated without who plans it"},
});

bool plans_slack(const config::job& job) {
  const auto rows = job.train.batch / std::max<int64_t>(1, job.parallel.data);
  const auto micro_batches = rows / std::max<int64_t>(1, job.train.micro_batch);
  return job.cluster.heads.empty() && job.swap.dir.empty() &&
         slack_job::can_plan(job.parallel.pipeline, micro_batches);
}

std::string_view why_left_out_of(const config::job& job, std::string_view key) {
  if (!job.cluster.heads.empty())
    for (const auto& f : without_heads)
      if (key.starts_with(f.prefix)) return f.why;
  if (key == "power.slack" && !job.swap.dir.empty())
    return "simulated devices of ranks that swap have one clock";
  if (key == "power.slack" && !plans_slack(job))
    return "its step has too many operations to plan at once: `troupe power slack` takes its time";
  if (key == "predict.enabled" && job.grid().ranks() > static_cast<int64_t>(learned_of))
    return "a predictor is beside the head of smaller clusters";
  // When a chunk is updated, and how often it is read for that, follows from these (swap_of).
  const bool swaps = job.cluster.heads.empty() && !job.swap.dir.empty();
  if (swaps && (key == "train.clip_norm" || key == "train.optimizer")) return {};
  return why_left_out(key);
}

bool has_hold(const config::job& job) {
  return std::any_of(job.recovery.rule.begin(), job.recovery.rule.end(),
                     [](const auto& r) { return r.action == config::recovery_action::hold; });
}

}  // namespace

worker_pace assumed_pace(const config::job& job) {
  if (job.cluster.device == config::device_kind::cuda) return {400e12, 100e9, 2e9};
  return {100e9, 0.5e9, 1e9};
}

result<simulation_options> options_of(const train::job_plan& plan, const worker_pace& pace,
                                      int64_t steps) {
  const auto& job = plan.job;
  const auto& c = job.cluster;
  if (std::ssize(plan.ranks) > ranks_at_once)
    return error{errc::bad_config,
                 fmt::format("{} ranks are more than the {} that can be simulated by message",
                             plan.ranks.size(), ranks_at_once),
                 "--set cluster.nodes to fewer, or simulate days: troupe sim --days 54"};
  simulation_options o;
  o.of = std::make_shared<const config::job>(job);
  o.nodes = static_cast<int>(c.places());
  o.spares = static_cast<int>(c.spares);
  o.workers = static_cast<int>(c.workers_per_node);
  o.pipeline = static_cast<int>(job.parallel.pipeline);
  o.micro_batches = static_cast<int>(plan.micro_batches);
  o.steps = static_cast<int>(steps > 0 ? steps : std::min(job.train.steps, usual_steps));
  o.validate_every = static_cast<int>(job.train.validate_every);
  o.checkpoint_every = static_cast<int>(job.checkpoint.every);
  o.when_busy = job.checkpoint.when_busy;
  o.second = !job.checkpoint.second.dir.empty() && c.heads.empty();
  o.second_every = static_cast<int>(job.checkpoint.second.every);
  o.heartbeat_ms = c.heartbeat_interval_ms;
  o.suspect_after_ms = c.suspect_after_ms;
  o.dead_after_ms = c.dead_after_ms;
  o.join_timeout_ms = c.join_timeout_ms;
  o.meter_ms = job.power.meter_interval_ms;
  o.heads = static_cast<int>(c.heads.size());
  o.head_takeover_s = job.recovery.head_takeover_s;
  o.recovers = job.recovery.enabled;
  o.fewer_replicas = job.recovery.fewer_replicas;
  o.head_grace_s = job.recovery.head_grace_s;
  const auto ranks = static_cast<uint32_t>(plan.ranks.size());
  o.mailbox_limit = std::max(o.mailbox_limit, words_of_a_rank * ranks);
  o.check = ranks <= looked_after;
  if (job.predict.enabled && ranks <= learned_of) o.predictor = predictor_is::working;
  if (c.heads.empty()) TROUPE_CHECK(be_swapping(plan, o));
  o.slack = job.power.takes_slack() && plans_slack(job);
  if (o.slack) o.slack_by = job.power.profile.empty() ? slack_from::measured : slack_from::profile;
  double step_ns = 0;
  for (const auto& s : train::plan_stages(plan)) {
    const auto& t = o.times.stages.emplace_back(times_of(s, plan, pace));
    step_ns += static_cast<double>(t.forward_ns + t.backward_ns) *
                   static_cast<double>(plan.micro_batches) +
               static_cast<double>(t.update_ns + t.save_ns);
  }
  const double planned = o.steps * step_ns;
  if (planned >= virtual_year_ns)
    return error{errc::usage,
                 fmt::format("{} steps would take {:.3g} years of virtual time", o.steps,
                             planned / virtual_year_ns),
                 "expected: less than a year; give fewer --steps, or workers more --gflops"};
  o.work_ns = times_planned * static_cast<int64_t>(planned);
  return o;
}

std::string_view why_left_out(std::string_view key) {
  const auto it = std::find_if(fates.begin(), fates.end(),
                               [&](const key_fate& f) { return key.starts_with(f.prefix); });
  return it == fates.end() ? "a simulation does not know it" : it->why;
}

std::vector<left_out> not_simulated(const config::loaded& from) {
  std::vector<left_out> out;
  for (const auto& [key, origin] : from.origins) {
    const auto why = why_left_out_of(from.value, key);
    const bool was_set =
        origin.kind != config::source_kind::standard && origin.kind != config::source_kind::derived;
    if (!was_set || why.empty()) continue;
    const auto it =
        std::find_if(out.begin(), out.end(), [&](const left_out& l) { return l.why == why; });
    (it == out.end() ? out.emplace_back(left_out{{}, std::string(why)}) : *it).keys.push_back(key);
  }
  if (has_hold(from.value))
    out.push_back({{"recovery.rule"}, "nobody is there to end a hold: the job goes on at once"});
  return out;
}

void be_of_person(config::job& simulated, const config::job& person) {
  auto& c = simulated.cluster;
  for (size_t i = 0; i < c.node.size(); ++i) {
    c.node[i].name = c.node[i].host = person.cluster.node[i].name;
    c.node[i].workers = person.cluster.node[i].workers;
  }
  simulated.parallel = person.parallel;
  simulated.parallel.nodes.clear();   // they are listed in that order
  simulated.parallel.layers.clear();  // of another model: how long its stages take is planned
  simulated.parallel.placement = config::stage_placement::even;
  simulated.train.batch = person.train.batch / person.train.micro_batch;
  simulated.train.validate_batches = person.train.validate_batches;
  auto& k = simulated.checkpoint;
  k.keep = person.checkpoint.keep;
  k.keep_every = person.checkpoint.keep_every;
  k.keep_best = person.checkpoint.keep_best;
  k.room_wait_s = person.checkpoint.room_wait_s;
  k.second.keep = person.checkpoint.second.keep;
  k.second.keep_every = person.checkpoint.second.keep_every;
  k.second.keep_best = person.checkpoint.second.keep_best;
  k.second.wait_s = person.checkpoint.second.wait_s;
  k.second.bytes_per_second = 0;
  simulated.timeouts = person.timeouts;
  simulated.recovery = person.recovery;
  for (auto& rule : simulated.recovery.rule)
    if (rule.action == config::recovery_action::hold)
      rule.action = config::recovery_action::restart;
  simulated.health = person.health;
  simulated.health.log_rule = config::default_log_rules();
  simulated.predict = person.predict;
}

}  // namespace troupe::sim
