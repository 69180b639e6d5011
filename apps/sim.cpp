// `troupe sim`: a cluster that does not exist, on virtual time: to replay a seed, to fuzz the
// actors with faults, to see how a large cluster would do, or a job of one's own.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "actors/base/hardware.hpp"
#include "actors/sim/fuzz.hpp"
#include "actors/sim/named_faults.hpp"
#include "actors/sim/slack_job.hpp"
#include "apps/commands.hpp"
#include "apps/sim_days.hpp"
#include "apps/sim_expecting.hpp"
#include "apps/sim_job.hpp"
#include "io/base/counted.hpp"
#include "io/base/rank_grid.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace {

/// Of a simulation of messages, and of one of days.
constexpr int nodes_by_message = 4096, nodes_by_event = 16'384;

struct sim_arguments {
  sim::simulation_options cluster;
  std::vector<std::string> faults, named_faults;
  int fault_count = 3;
  double span_s = 1;
  uint64_t fuzz = 0;
  unsigned jobs = 0;
  bool scale = false;
  bool json = false;
  bool swap = false;
  double save_s = 0;  ///< of a rank's part; 0: as by itself
  std::string watts_out, slack;
  days_arguments days;
  argument* days_given = nullptr;
  argument* every_given = nullptr;
  std::vector<std::pair<std::string, argument*>> without_days;  ///< options of the other kinds
  job_simulation job;
  argument* job_set = nullptr;
  argument* steps_given = nullptr;
  std::vector<std::pair<std::string, argument*>> without_job;  ///< that its file says, or others
};

/// 12,288 devices as MegaScale had them (§6.1): 1,536 nodes of 8, a pipeline of 8 stages, and the
/// times of its 6.3-second step.
void make_large(sim::simulation_options& o) {
  o.nodes = 1536;
  o.workers = 8;
  o.pipeline = 8;
  o.micro_batches = 4;
  o.steps = 100;
  o.checkpoint_every = 0;
  o.heartbeat_ms = 1000;
  o.meter_ms = 5000;
  o.suspect_after_ms = 3000;
  o.dead_after_ms = 10'000;
  o.join_timeout_ms = 60'000;
  o.times.forward_ns = 180'000'000;
  o.times.backward_ns = 360'000'000;
  o.times.update_ns = 300'000'000;
  o.shuffle = false;
  o.burst = 64;
  o.check = false;
  o.mailbox_limit = 1 << 20;
}

/// All that befall such a cluster.
std::vector<sim::fault_kind> all_of(const sim_arguments& a) {
  if (a.cluster.heads > 1) return sim::all_head_faults();
  if (a.cluster.power_parent_w > 0) return sim::all_parent_faults();
  if (a.cluster.budget_w > 0) return sim::all_power_faults();
  if (a.cluster.slack) return sim::all_slack_faults();
  return a.cluster.swap.any() ? sim::all_swap_faults() : sim::all_faults();
}

result<std::vector<sim::fault_kind>> kinds_of(const std::vector<std::string>& names,
                                              const sim_arguments& a) {
  std::vector<sim::fault_kind> all;
  for (int k = 0; k < sim::fault_kinds; ++k) all.push_back(static_cast<sim::fault_kind>(k));
  std::vector<sim::fault_kind> out;
  std::vector<std::string> known;
  for (const auto k : all) known.emplace_back(sim::to_string(k));
  for (const auto& name : names) {
    if (name == "all") return all_of(a);
    const auto it = std::find(known.begin(), known.end(), name);
    if (it == known.end())
      return error{errc::usage, fmt::format("unknown fault: {}", name),
                   fmt::format("the faults are: all, {}", fmt::join(known, ", "))};
    out.push_back(all[static_cast<size_t>(it - known.begin())]);
    if (sim::is_of_drives(out.back()) && !a.cluster.swap.any())
      return error{errc::usage, fmt::format("{} has no meaning without swapping", name),
                   "only a cluster whose ranks swap has drives: a file with swap.dir, or --swap"};
    if (a.cluster.slack && sim::is_of_clocks(out.back())) continue;
    if (sim::is_of_parent(out.back()) && a.cluster.power_parent_w <= 0)
      return error{errc::usage, fmt::format("{} has no meaning without --power-parent-w", name),
                   "only a job under a power budget has one to lose"};
    if (sim::is_of_power(out.back()) && a.cluster.budget_w <= 0 && a.cluster.power_parent_w <= 0)
      return error{errc::usage, fmt::format("{} has no meaning without --budget-w", name),
                   "only a job with a power budget asks its meters"};
  }
  return out;
}

nlohmann::ordered_json slack_json(const sim::slack_counts& s) {
  return {{"planned_steps", s.planned},
          {"held_steps", s.held},
          {"let_go", s.returns},
          {"trials", s.trials},
          {"joules_a_step_highest", s.highest_j},
          {"joules_a_step_planned", s.planned_j}};
}

std::string slack_text(const sim::slack_counts& s) {
  auto out = fmt::format("slack: {} at planned clocks, {} behind a straggler; {} of clocks",
                         counted(s.planned, "step"), s.held, counted(s.trials, "trial"));
  if (s.planned_j > 0 && s.highest_j > 0)
    out +=
        fmt::format("; {:.1f} J a step above waiting in place of {:.1f}", s.planned_j, s.highest_j);
  return out + "\n";
}

nlohmann::ordered_json facts_of(const sim::simulation_outcome& o) {
  nlohmann::ordered_json j;
  j["seed"] = o.seed;
  j["violation"] = o.violation ? nlohmann::ordered_json(*o.violation) : nullptr;
  j["fingerprint"] = fmt::format("{:016x}", o.fingerprint);
  j["events"] = o.counts.events;
  j["between_nodes"] = o.counts.crossed;
  j["lost"] = o.counts.lost;
  j["deepest_mailbox"] = o.counts.deepest;
  j["virtual_s"] = static_cast<double>(o.virtual_ns) / 1e9;
  j["wall_s"] = o.wall_s;
  j["events_per_s"] = static_cast<double>(o.counts.events) / std::max(o.wall_s, 1e-9);
  j["steps"] = o.steps;
  j["last_step"] = o.last_step;
  j["launches"] = o.launches;
  j["checkpoints"] = o.checkpoints;
  j["checkpoints_skipped"] = o.skipped_checkpoints;
  j["checkpoint_wait_s"] = o.checkpoint_wait_ms / 1e3;
  if (!o.losses.empty()) {
    j["first_loss"] = o.losses.front();
    j["last_loss"] = o.losses.back();
  }
  j["recoveries"] = nlohmann::ordered_json::array();
  for (const auto& r : o.recoveries)
    j["recoveries"].push_back({{"finding", r.finding},
                               {"node", r.node},
                               {"what", r.what},
                               {"fell_after_step", r.fell_after_step},
                               {"resumed_after_step", r.resumed_after_step},
                               {"back_s", r.back_s}});
  if (o.swaps.operations > 0) {
    auto& s = j["swap"];
    s["operations"] = o.swaps.operations;
    s["checkpoints_by_links"] = o.swaps.kept;
    s["checkpoints_without_room"] = o.swaps.unkept;
    s["files_moved"] = o.swaps.moved;
    s["gradient_files_moved"] = o.swaps.gradients_moved;
    s["activation_files_moved"] = o.swaps.activations_moved;
    s["waits_for_room"] = o.swaps.waited;
    s["reads_failed"] = o.swaps.unread;
    s["activations_written"] = o.swaps.spilled;
    s["steps_made_again"] = o.swaps.redone;
    s["tables_with_rows_first"] = o.swaps.rows_first;
    s["spilling_replanned"] = o.swaps.replanned;
    s["folders_left"] = o.swaps.leftovers;
  }
  if (o.takes_slack) j["slack"] = slack_json(o.slack);
  j["faults"] = o.faults;
  j["faults_without_effect"] = nlohmann::ordered_json::array();
  for (const auto& m : o.missed)
    j["faults_without_effect"].push_back(
        {{"fault", m.what}, {"at_s", m.at_s}, {"why", m.why}, {"hint", m.hint}});
  j["ends"] = o.ends;
  return j;
}

std::string text_of(const sim::simulation_outcome& o) {
  const double virtual_s = static_cast<double>(o.virtual_ns) / 1e9;
  std::string out = fmt::format(
      "seed {}: {} in {}, {:.1f} virtual s in {:.2f} s ({:.1f} s a virtual minute)\n"
      "events: {} ({:.0f}/s), {} between nodes, {} lost, deepest mailbox {}\n",
      o.seed, counted(o.steps, "step"), counted(o.launches, "launch", "launches"), virtual_s,
      o.wall_s, o.wall_s / virtual_s * 60, o.counts.events,
      static_cast<double>(o.counts.events) / std::max(o.wall_s, 1e-9), o.counts.crossed,
      o.counts.lost, o.counts.deepest);
  for (const auto& f : o.faults) out += fmt::format("fault: {}\n", f);
  for (const auto& m : o.missed) out += fmt::format("fault: {}\n", m.text());
  for (const auto& r : o.recoveries)
    out += fmt::format("recovery: {}; fell after step {}, {}\n", r.what, r.fell_after_step,
                       r.back_s < 0 ? "and did not go on"
                                    : fmt::format("went on from step {} after {:.1f} s",
                                                  r.resumed_after_step, r.back_s));
  if (o.swaps.operations > 0) out += fmt::format("swap: {}\n", o.swaps.text());
  if (o.takes_slack) out += slack_text(o.slack);
  out += fmt::format("ended: {}\nfingerprint: {:016x}\n", fmt::join(o.ends, "; "), o.fingerprint);
  return out;
}

/// Of a job of a person's own.
std::string job_text_of(const sim::simulation_outcome& o) {
  if (o.losses.empty()) return "no step was made\n";
  return fmt::format(
      "steps to {}; made again: {}; checkpoints: {}, left out: {}, waited for: {:.1f} s\n"
      "loss: {:.3f} to {:.3f} (made up)\n",
      o.last_step, o.steps - std::min(o.steps, o.last_step), o.checkpoints, o.skipped_checkpoints,
      o.checkpoint_wait_ms / 1e3, o.losses.front(), o.losses.back());
}

/// Stages and replicas of a cluster by options alone.
rank_grid grid_of(const sim::simulation_options& o) {
  const int stages = std::max(1, o.pipeline);
  return {o.nodes * o.workers / stages, 1, stages};
}

/// Ten samples a second, as meters of power supplies show.
constexpr int64_t watts_each_ms = 100;

/// From the first step to the last: what starts and ends draw is no save's.
std::string watts_csv(const sim::simulation_outcome& o) {
  constexpr int64_t each_ns = watts_each_ms * 1'000'000;
  std::string out = "t_s,watts\n";
  if (o.first_step_ns < 0) return out;
  const auto first = static_cast<size_t>(o.first_step_ns / each_ns + 1);
  const auto end = std::min(static_cast<size_t>(o.last_step_ns / each_ns), o.watts.size());
  for (size_t i = first; i < end; ++i)
    out += fmt::format("{:.1f},{:.1f}\n", static_cast<double>(i - first) * watts_each_ms / 1e3,
                       o.watts[i]);
  return out;
}

/// `of`: what the cluster is simulated of, where that is a file.
result<int> run_one(const sim_arguments& a, const sim::simulation_options& options,
                    const simulated_file& of) {
  const auto before = cluster::usage_now();
  TROUPE_TRY(done, sim::simulate(options));
  const auto after = cluster::usage_now();
  const auto most = cluster::peak_memory();
  if (!a.watts_out.empty()) TROUPE_CHECK(io::write_atomic(a.watts_out, watts_csv(done)));
  const double took_s = after.cpu_seconds - before.cpu_seconds;
  std::optional<expecting_cost> expecting;
  std::optional<learning_cost> learning;
  if (a.scale) {
    expecting = cost_of_expecting(grid_of(options), done.steps);
    learning = cost_of_learning(grid_of(options), done.steps);
  }
  if (a.json) {
    auto facts = facts_of(done);
    if (expecting) facts["expecting"] = expecting_json(*expecting, took_s);
    if (learning) facts["learning"] = learning_json(*learning, took_s);
    if (options.of) facts["job"] = of.facts;
    facts["rss_before_bytes"] = before.rss_bytes;
    facts["rss_after_bytes"] = after.rss_bytes;
    facts["peak_bytes"] = most;
    TROUPE_CHECK(print(facts.dump() + "\n"));
  } else {
    const auto grown = most - std::min(most, before.rss_bytes);
    TROUPE_CHECK(print(of.text + text_of(done) + (options.of ? job_text_of(done) : "") +
                       fmt::format("memory: {:.0f} MiB at most, {:.0f} KiB a node\n",
                                   static_cast<double>(most) / (1 << 20),
                                   static_cast<double>(grown) / 1024 / options.nodes) +
                       (expecting ? expecting_text(*expecting, took_s) : "") +
                       (learning ? learning_text(*learning, took_s) : "")));
  }
  if (!done.violation) return 0;
  return error{errc::bug, *done.violation, "the same command shows it again"};
}

/// A seed that is the only one is told in full.
result<sim::simulation_outcome> run_alone(const sim_arguments& a, sim::simulation_options options) {
  options.log = a.cluster.log;
  TROUPE_TRY(done, sim::simulate(options));
  if (!done.violation) TROUPE_CHECK(print(a.json ? facts_of(done).dump() + "\n" : text_of(done)));
  return done;
}

/// Seeds from the first on, in as many processes as there are cores; what is told of them in turn
/// needs one.
result<int> run_fuzz(const sim_arguments& a, const std::vector<sim::fault_kind>& kinds) {
  const auto begun = std::chrono::steady_clock::now();
  sim::fuzz_options options{a.cluster.seed, a.fuzz, kinds, a.cluster.log, a.jobs, {}};
  options.heads = a.cluster.heads;
  options.swap = a.cluster.swap.any();
  options.budget = a.cluster.budget_w > 0;
  options.parent = a.cluster.power_parent_w > 0;
  options.slack = a.cluster.slack;
  if (options.log && options.jobs == 0) options.jobs = 1;
  if (a.fuzz == 1)
    options.run = [&](uint64_t seed) { return run_alone(a, sim::options_of(options, seed)); };
  TROUPE_TRY(done, sim::fuzz(options));
  if (done.signal != 0) return 128 + done.signal;
  if (done.failure)
    return error{
        done.failure->what.code,
        fmt::format("seed {}: {}", done.failure->seed, done.failure->what.message),
        fmt::format("replay it with: {}", sim::replay_command(options, done.failure->seed))};
  const double wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  TROUPE_CHECK(print(fmt::format(
      "{}, {}, {} events in {:.1f} s: nothing violated\n{}\n", counted(a.fuzz, "seed"),
      counted(done.faults, "fault"), done.events, wall_s,
      options.heads > 1 ? counted(done.takeovers, "head") + " acted in the place of another"
      : options.swap    ? done.swaps.text() + "\n" + done.folders.text()
                        : done.folders.text())));
  return 0;
}

/// Options of one kind of simulation given with another.
status check_kind(const sim_arguments& a) {
  if (a.days_given->count() == 0) {
    const auto name = days_option_given(a.days);
    if (!name.empty())
      return error{errc::usage, fmt::format("{} has no meaning without --days", name),
                   "as in: troupe sim --days 54 --nodes 1536 --workers 8"};
    if (a.cluster.nodes > nodes_by_message)
      return error{errc::usage,
                   fmt::format("--nodes is at most {} without --days", nodes_by_message),
                   "--days simulates events, not messages, and takes more"};
    return {};
  }
  for (const auto& [name, argument] : a.without_days)
    if (argument->count() > 0)
      return error{errc::usage, fmt::format("{} has no meaning with --days", name),
                   "days draw their faults from --mix; leave one of the two out"};
  return {};
}

/// What the file says, or what a job does not go with.
status check_job(const sim_arguments& a) {
  const bool has_file = !a.job.job.file.empty();
  if (has_file) {
    for (const auto& [name, argument] : a.without_job)
      if (argument->count() > 0)
        return error{
            errc::usage, fmt::format("{} has no meaning with FILE", name),
            "the file says what is simulated, and --set changes it: --set cluster.nodes=4"};
    return {};
  }
  if (a.job_set->count() > 0 || a.job.gflops > 0 || a.job.measures)
    return error{errc::usage, "--set, --gflops and --measure have no meaning without FILE",
                 "as in: troupe sim run.toml --gflops 200"};
  return {};
}

/// Faults that a person names, which the simulated job must have.
status add_named_faults(const sim_arguments& a, sim::simulation_options& o) {
  if (a.named_faults.empty()) return {};
  if (o.heads > 1)
    return error{errc::usage, "--fault has no meaning with --heads", "--faults draws some"};
  TROUPE_TRY(job, sim::simulated_job(o));
  sim::rng chance(sim::mix(o.seed ^ 0x44));
  for (const auto& text : a.named_faults) {
    TROUPE_TRY(fault, sim::parse_fault(text, chance));
    TROUPE_CHECK(sim::check_fault(fault, job));
    o.faults.push_back(std::move(fault));
  }
  return {};
}

/// As many layers a stage as make a model whose state is more than what brings it.
status be_swapped(sim_arguments& a) {
  constexpr int layers = 8;
  a.cluster.swap.layers = layers;
  if (a.cluster.heads > 1 || a.scale)
    return error{errc::usage,
                 fmt::format("--swap has no meaning with {}", a.scale ? "--scale" : "--heads"),
                 "leave one of the two out"};
  return {};
}

/// What a cluster with a power budget cannot be besides.
status check_power(const sim_arguments& a) {
  const bool has_parent = a.cluster.power_parent_w > 0, swaps = a.cluster.swap.any();
  if ((a.cluster.budget_w <= 0 && !has_parent) || (a.cluster.heads <= 1 && !swaps)) return {};
  const bool of_file = !a.job.job.file.empty();
  return error{
      errc::usage,
      fmt::format("{} has no meaning with {}", has_parent ? "--power-parent-w" : "--budget-w",
                  of_file ? (swaps ? "a job that swaps" : "a job of several heads")
                          : (swaps ? "--swap" : "--heads")),
      of_file ? "leave it out" : "leave one of the two out"};
}

/// Operations as those of large models are, of stages that are not alike: clocks can follow them,
/// and there is something to take.
void make_unlike(sim::simulation_options& o) {
  constexpr std::array factors{0.95, 1.0, 0.9, 1.06};
  constexpr double forward_ns = 80e6;
  for (size_t s = 0; s < static_cast<size_t>(o.pipeline); ++s) {
    const auto ns = static_cast<int64_t>(forward_ns * factors[s % factors.size()]);
    o.times.stages.push_back({ns, 2 * ns, o.times.update_ns, o.times.save_ns});
  }
}

/// What a cluster whose job takes slack cannot be besides.
status take_slack(sim_arguments& a) {
  if (a.slack.empty()) return {};
  auto& c = a.cluster;
  const auto* with = a.swap ? "--swap" : a.scale ? "--scale" : c.heads > 1 ? "--heads" : nullptr;
  if (with != nullptr)
    return error{errc::usage, fmt::format("--slack has no meaning with {}", with),
                 "leave one of the two out"};
  if (a.fuzz > 0 && (c.budget_w > 0 || c.power_parent_w > 0))
    return error{errc::usage, "--slack has no meaning with a power budget and --fuzz",
                 "while a budget paces a job it takes no slack: leave one of the two out"};
  if (a.fuzz == 0 && c.pipeline < 2)
    return error{errc::usage, "--slack has no meaning with one stage",
                 "none of its operations waits for another stage: --pipeline 4"};
  if (a.fuzz == 0 && !sim::slack_job::can_plan(c.pipeline, c.micro_batches))
    return error{errc::usage,
                 fmt::format("--slack has no meaning with more than {} operations a step",
                             sim::slack_job::operations_at_once),
                 "a forward and a backward of each micro-batch on each stage: give fewer"};
  c.slack = true;
  c.slack_by = a.slack == "measure" ? sim::slack_from::measured : sim::slack_from::profile;
  return {};
}

/// Watts are of one run, and of devices that a job with one head has.
status check_watts(const sim_arguments& a) {
  if (a.watts_out.empty()) return {};
  const auto* with = a.fuzz > 0 ? "--fuzz" : a.cluster.heads > 1 ? "several heads" : nullptr;
  if (with == nullptr) return {};
  return error{errc::usage, fmt::format("--watts-out has no meaning with {}", with),
               "leave one of the two out"};
}

/// The cluster is the file's; seed, launches and power budgets are the command line's.
status be_of_file(sim_arguments& a, simulated_file& of) {
  a.job.has_one_head = !a.named_faults.empty();
  TROUPE_TRY(file, simulated_from(a.job, a.steps_given->count() > 0 ? a.cluster.steps : 0));
  of = std::move(file);
  auto o = of.options;
  o.seed = a.cluster.seed;
  o.launches = a.cluster.launches;
  o.log = a.cluster.log;
  o.budget_w = a.cluster.budget_w;
  o.power_parent_w = a.cluster.power_parent_w;
  a.cluster = std::move(o);
  return check_power(a);
}

result<int> run_sim(sim_arguments a) {
  TROUPE_CHECK(check_kind(a));
  TROUPE_CHECK(check_job(a));
  spdlog::set_level(spdlog::level::off);  // what the actors log of foreign faults is of no interest
  if (a.swap) TROUPE_CHECK(be_swapped(a));
  TROUPE_CHECK(check_power(a));
  TROUPE_CHECK(take_slack(a));
  if (a.days_given->count() > 0) {
    days_cluster c{a.cluster.nodes, a.cluster.workers, a.cluster.seed, {}, a.json};
    if (a.every_given->count() > 0)
      c.checkpoint_every = static_cast<uint64_t>(std::max(0, a.cluster.checkpoint_every));
    return run_days(a.days, c);
  }
  if (a.fuzz > 0 && !a.named_faults.empty())
    return error{errc::usage, "--fault has no meaning with --fuzz", "--faults names kinds"};
  simulated_file of;
  if (!a.job.job.file.empty()) TROUPE_CHECK(be_of_file(a, of));
  TROUPE_CHECK(check_watts(a));
  auto names = a.faults;
  if (names.empty() && a.fuzz > 0) names = {"all"};
  TROUPE_TRY(kinds, kinds_of(names, a));
  if (a.fuzz > 0) return run_fuzz(a, kinds);
  auto o = a.cluster;
  if (a.scale) make_large(o);
  if (a.save_s > 0) o.times.save_ns = static_cast<int64_t>(a.save_s * 1e9);
  if (!a.slack.empty()) make_unlike(o);
  if (!a.watts_out.empty()) o.watts_each_ms = watts_each_ms;
  sim::rng lot(sim::mix(o.seed));
  o.recovers |= o.heads > 1;
  o.faults = sim::draw_faults(lot, kinds, kinds.empty() ? 0 : a.fault_count,
                              static_cast<int64_t>(a.span_s * 1e9));
  TROUPE_CHECK(add_named_faults(a, o));
  return run_one(a, o, of);
}

/// A cluster by options alone.
void add_cluster_options(command* verb, sim_arguments& a) {
  auto& c = a.cluster;
  const auto alone = [&](const std::string& name, argument* it, bool also_days = false) {
    if (!also_days) a.without_days.emplace_back(name, it);
    a.without_job.emplace_back(name, it);
    return it;
  };
  const auto by_message = [&](const std::string& name, argument* it) {
    a.without_days.emplace_back(name, it);
    return it;
  };
  alone("--nodes", verb->add_option("--nodes", c.nodes, "Nodes")->within(1, nodes_by_event), true);
  alone("--workers", verb->add_option("--workers", c.workers, "Workers a node")->within(1, 64),
        true);
  alone("--pipeline", verb->add_option("--pipeline", c.pipeline, "Pipeline stages"));
  alone("--micro-batches",
        verb->add_option("--micro-batches", c.micro_batches, "Micro-batches a step"));
  a.steps_given =
      verb->add_option("--steps", c.steps, "Steps; of a FILE its own, of a long job the first 200")
          ->positive();
  a.without_days.emplace_back("--steps", a.steps_given);
  a.every_given =
      alone("--checkpoint-every",
            verb->add_option("--checkpoint-every", c.checkpoint_every, "Steps between checkpoints"),
            true);
  alone("--save-s", verb->add_option("--save-s", a.save_s,
                                     "Seconds that a rank's part of a checkpoint takes, about"))
      ->within(1e-3, 86'400.0);
  alone("--blocking-saves",
        verb->add_flag("--blocking-saves", c.times.saves_block,
                       "Devices do nothing while they save, as no job's: to compare with"));
  alone("--heads", verb->add_option("--heads", c.heads,
                                    "Heads of the job (cluster.heads): one acts, others stand by"))
      ->within(0, 9);
  alone("--swap", verb->add_flag("--swap", a.swap, "Its ranks swap to drives"));
  by_message("--budget-w", verb->add_option("--budget-w", c.budget_w,
                                            "Watts that its devices may draw together; with --fuzz "
                                            "each seed draws its own"))
      ->within(0.0, 1e9);
  by_message("--power-parent-w",
             verb->add_option("--power-parent-w", c.power_parent_w,
                              "Watts of a power budget above the job, which shares them with a "
                              "neighbour; with --fuzz each seed draws its own"))
      ->within(0.0, 1e9);
  alone("--slack",
        verb->add_option("--slack", a.slack,
                         "Its job takes slack (power.slack): by what clocks cost simulated "
                         "devices, or by what it measures of that in its first steps. Its "
                         "stages are unlike, their operations take some 80 and 160 ms"))
      ->one_of({"profile", "measure"});
  alone("--fuzz", verb->add_option("--fuzz", a.fuzz, "Random small clusters from so many seeds"));
  alone("--jobs",
        verb->add_option("--jobs", a.jobs, "Processes that --fuzz uses; 0: one for each core"));
  alone("--scale", verb->add_flag("--scale", a.scale, "1,536 nodes of 8 workers, 100 steps"));
}

/// What befalls a cluster, whichever it is.
void add_fault_options(command* verb, sim_arguments& a) {
  const auto other = [&](const std::string& name, argument* it) {
    a.without_days.emplace_back(name, it);
    return it;
  };
  other("--launches", verb->add_option("--launches", a.cluster.launches,
                                       "Times the cluster is started, at most"));
  std::vector<std::string> kinds{"all"};
  for (int k = 0; k < sim::fault_kinds; ++k)
    kinds.emplace_back(sim::to_string(static_cast<sim::fault_kind>(k)));
  other("--faults", verb->add_option("--faults", a.faults, "Kinds of faults, or all"))
      ->delimiter(',')
      ->suggests(kinds);
  other("--fault-count", verb->add_option("--fault-count", a.fault_count, "How many faults"));
  other("--fault-span", verb->add_option("--fault-span", a.span_s,
                                         "They fall into the first so many virtual seconds"));
  other("--fault", verb->add_option("--fault", a.named_faults,
                                    "One fault, e.g. crash_node:node1@12.5 or "
                                    "slow_device:3@10+30 (repeat as you like)"))
      ->type_name("KIND[:WHO]@SECONDS[+SECONDS]")
      ->takes(offered::nothing_known)
      ->take_all()
      ->expected(1);
  other("--log", verb->add_flag("--log", a.cluster.log, "Tell faults and ends on stderr"));
}

}  // namespace

void add_sim(shell& sh) {
  auto* verb = sh.app.add_subcommand("sim", "Simulate a cluster, or a job, on virtual time");
  verb->footer(
      "With FILE its nodes, workers, layout, checkpoints, health and recovery are simulated; what\n"
      "is not, and where the times of its steps come from, is said.\n"
      "Examples:\n"
      "  troupe sim run.toml --gflops 200 --fault crash_node:node1@12.5\n"
      "  troupe sim --nodes 8 --pipeline 4 --faults all --seed 7\n"
      "  troupe sim --fuzz 1000");
  auto a = std::make_shared<sim_arguments>();
  a->job_set = add_optional_job(verb, a->job.job).set;
  verb->add_option("--gflops", a->job.gflops,
                   "Of a FILE: billions of operations that a worker does in a second")
      ->within(1e-3, 1e9);
  verb->add_flag("--measure", a->job.measures, "Of a FILE: a layer of its model is timed for that");
  verb->add_option("--seed", a->cluster.seed, "Everything follows from it");
  add_cluster_options(verb, *a);
  add_fault_options(verb, *a);
  verb->add_flag("--json", a->json, "As one JSON object");
  a->without_days.emplace_back(
      "--watts-out",
      verb->add_option("--watts-out", a->watts_out,
                       "Write t_s,watts of all devices into this file, from the first step to the "
                       "last, ten a second"));
  a->days_given = add_days(verb, a->days);
  a->without_job.emplace_back("--days", a->days_given);
  on_run(sh, verb, [a] { return run_sim(*a); });
}

}  // namespace troupe::apps
