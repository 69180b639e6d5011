// `troupe bench power`: what the tree of budgets costs, how much speed it leaves a job of many
// devices, how well a job keeps a budget, how well two jobs share one, and how soon they follow a
// cut and a brake, as tables or JSON.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/power/budget_schedule.hpp"
#include "apps/bench/bench.hpp"
#include "apps/bench/interrupt.hpp"
#include "apps/bench/leftovers.hpp"
#include "apps/bench/power_devices_report.hpp"
#include "apps/bench/power_figures.hpp"
#include "apps/bench/power_live_report.hpp"
#include "apps/bench/power_overload_report.hpp"
#include "apps/bench/power_shared_report.hpp"
#include "apps/bench/power_tree.hpp"
#include "apps/bench/spread.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace {

using power_bench::devices_plan;
using power_bench::live_plan;
using power_bench::measure_devices;
using power_bench::measure_live;
using power_bench::measure_overload;
using power_bench::measure_shared;
using power_bench::measure_tree;
using power_bench::overload_plan;
using power_bench::p99_of;
using power_bench::shared_plan;
using power_bench::tree_measurement;
using power_bench::tree_plan;

/// A tick of 10,000 leaves; of others in proportion.
constexpr double aim_ms = 10;
constexpr int aim_leaves = 10'000;

/// The part that needs a cpu controller, and the one that takes minutes: only where they are asked
/// for.
constexpr std::string_view by_quota = "cgroup", overload = "brake";

struct power_arguments {
  tree_plan plan;
  devices_plan devices;  ///< the seed is the tree's
  std::string follow;    ///< a file of what the devices' budget is; empty: one that falls
  live_plan live;
  shared_plan shared;             ///< rounds and settings are live's
  overload_plan overloads;        ///< settings are live's
  std::vector<std::string> only;  ///< parts; empty: all
  std::string dir;
  bool json = false;

  bool wants(std::string_view part) const {
    if (only.empty()) return part != by_quota && part != overload;
    return std::find(only.begin(), only.end(), part) != only.end();
  }
};

nlohmann::ordered_json json_of(const tree_plan& plan, const tree_measurement& m) {
  nlohmann::ordered_json out{
      {"mode", power::budget_mode_names[static_cast<size_t>(plan.mode)]},
      {"leaves", plan.leaves},
      {"ticks", plan.ticks},
      {"tick_ms", json_of(spread_of(m.tick_ms))},
      {"tick_p99_ms", p99_of(m.tick_ms)},
      {"hear_ms", json_of(spread_of(m.hear_ms))},
      {"aim_ms", aim_ms * plan.leaves / aim_leaves},
      {"grants_per_tick", static_cast<double>(m.grants) / plan.ticks},
      {"caps_changed_per_tick", static_cast<double>(m.changes) / plan.ticks}};
  if (plan.mode == power::budget_mode::shares) out["ticks_over_budget"] = m.over;
  return out;
}

std::string row_of(const tree_plan& plan, const tree_measurement& m) {
  const auto tick = spread_of(m.tick_ms), hear = spread_of(m.hear_ms);
  return fmt::format("{:<11} {:>8} {:>10.3f} {:>10.3f} {:>10.3f} {:>12.3f} {:>9.0f} {:>9.0f}\n",
                     power::budget_mode_names[static_cast<size_t>(plan.mode)], plan.leaves,
                     tick.median, p99_of(m.tick_ms), tick.most, hear.median,
                     static_cast<double>(m.grants) / plan.ticks,
                     static_cast<double>(m.changes) / plan.ticks);
}

/// The part that needs no machine.
result<nlohmann::ordered_json> run_tree(const power_arguments& arguments) {
  auto rows = nlohmann::ordered_json::array();
  if (!arguments.json)
    TROUPE_CHECK(
        print(fmt::format("{:<11} {:>8} {:>10} {:>10} {:>10} {:>12} {:>9} {:>9}\n", "mode",
                          "leaves", "tick ms", "p99", "most", "reports ms", "grants", "changed")));
  bool met = true;
  auto plan = arguments.plan;
  for (const auto mode : {power::budget_mode::shares, power::budget_mode::thresholds}) {
    plan.mode = mode;
    TROUPE_TRY(m, measure_tree(plan));
    met = met && p99_of(m.tick_ms) * aim_leaves <= aim_ms * plan.leaves;
    rows.push_back(json_of(plan, m));
    if (!arguments.json) TROUPE_CHECK(print(row_of(plan, m)));
  }
  if (!arguments.json)
    TROUPE_CHECK(print(fmt::format(
        "a tick is the parent's decision; reports: to hear one of each leaf before it. Grants and "
        "caps\nthat changed are means of a tick. The aim, {:.3g} ms for {} leaves at the 99th "
        "percentile, is {}\n",
        aim_ms * plan.leaves / aim_leaves, plan.leaves, met ? "met" : "missed")));
  return rows;
}

/// A job of many simulated devices: needs no machine, either.
result<nlohmann::ordered_json> run_devices(const power_arguments& arguments) {
  auto plan = arguments.devices;
  plan.seed = arguments.plan.seed;
  if (!arguments.follow.empty()) {
    constexpr size_t row_bytes = 64;
    TROUPE_TRY(text,
               io::read_file(arguments.follow, row_bytes * power::budget_schedule::most_rows));
    plan.budget_csv = std::move(text);
  }
  auto m = measure_devices(plan);
  if (!m) return arguments.follow.empty() ? m.error() : m.error().within(arguments.follow);
  if (!arguments.json)
    TROUPE_CHECK(print((arguments.wants("tree") ? "\n" : "") + power_bench::text_of(*m)));
  return power_bench::json_of(*m);
}

/// Where jobs of this machine are, and whether a person interrupts them.
struct live_place {
  std::unique_ptr<interrupt_watch> interrupt;
  io::held_scratch folder;
};

/// Before any other thread.
result<live_place> live_place_for(const power_arguments& arguments) {
  TROUPE_TRY(interrupt, interrupt_watch::start());
  const auto parent = arguments.dir.empty() ? std::filesystem::temp_directory_path()
                                            : std::filesystem::absolute(arguments.dir);
  TROUPE_TRY(folder, io::held_scratch::make(parent, "troupe-power-"));
  say_removed(folder);
  return live_place{std::move(interrupt), std::move(folder)};
}

/// What a part of the benchmark found, as the table and as JSON, and whether every loss was that
/// without a budget.
struct part_told {
  std::string text;
  nlohmann::ordered_json json;
  bool same_bits = false;
};

template <class Measurement>
part_told told_of(const Measurement& m) {
  return {power_bench::text_of(m), power_bench::json_of(m), power_bench::verdict_of(m).same_bits};
}

/// A job on this machine.
result<part_told> run_live(const power_arguments& arguments, const live_place& at) {
  auto plan = arguments.live;
  plan.folder = at.folder.path();
  plan.stop = &at.interrupt->asked();
  TROUPE_TRY(m, measure_live(plan));
  return told_of(m);
}

/// Two jobs on this machine, with these settings beside those that are given.
result<part_told> run_both(const power_arguments& arguments, const live_place& at,
                           std::vector<std::string> sets) {
  auto plan = arguments.shared;
  plan.rounds = arguments.live.rounds;
  plan.sets = std::move(sets);
  plan.sets.insert(plan.sets.end(), arguments.live.sets.begin(), arguments.live.sets.end());
  plan.folder = at.folder.path();
  plan.stop = &at.interrupt->asked();
  TROUPE_TRY(m, measure_shared(plan));
  return told_of(m);
}

result<part_told> run_shared(const power_arguments& arguments, const live_place& at) {
  return run_both(arguments, at, {});
}

/// The same, their paces by quotas of their threads.
result<part_told> run_by_quota(const power_arguments& arguments, const live_place& at) {
  return run_both(arguments, at, {"power.control=cgroup"});
}

/// Two that are cut and held.
result<part_told> run_overload(const power_arguments& arguments, const live_place& at) {
  auto plan = arguments.overloads;
  plan.sets = arguments.live.sets;
  plan.folder = at.folder.path();
  plan.stop = &at.interrupt->asked();
  TROUPE_TRY(m, measure_overload(plan));
  return told_of(m);
}

/// The parts that are jobs on this machine. `same_bits`: whether every loss was that without a
/// budget.
status run_jobs(const power_arguments& arguments, nlohmann::ordered_json& out, bool& same_bits) {
  TROUPE_TRY(at, live_place_for(arguments));
  bool first = !arguments.wants("tree") && !arguments.wants("devices");
  for (const auto& [part, run] : {std::pair(std::string_view("live"), &run_live),
                                  {"shared", &run_shared},
                                  {by_quota, &run_by_quota},
                                  {overload, &run_overload}}) {
    if (!arguments.wants(part)) continue;
    TROUPE_TRY(told, run(arguments, at));
    same_bits = same_bits && told.same_bits;
    out[std::string(part)] = std::move(told.json);
    if (!arguments.json) TROUPE_CHECK(print((first ? "" : "\n") + told.text));
    first = false;
  }
  return {};
}

result<int> run_power(const power_arguments& arguments) {
  nlohmann::ordered_json out{{"bench", "power"}};
  if (arguments.wants("tree")) {
    TROUPE_TRY(tree, run_tree(arguments));
    out["tree"] = std::move(tree);
  }
  if (arguments.wants("devices")) {
    TROUPE_TRY(devices, run_devices(arguments));
    out["devices"] = std::move(devices);
  }
  bool same_bits = true;
  if (arguments.wants("live") || arguments.wants("shared") || arguments.wants(by_quota) ||
      arguments.wants(overload)) {
    const auto jobs = run_jobs(arguments, out, same_bits);
    if (!jobs && arguments.json && out.size() > 1)
      TROUPE_CHECK(print(out.dump() + "\n"));  // what was measured is told all the same
    if (!jobs) return jobs.error();
  }
  if (arguments.json) TROUPE_CHECK(print(out.dump() + "\n"));
  return same_bits ? 0 : 1;
}

}  // namespace

void add_bench_power(shell& sh, command* bench) {
  auto* verb =
      bench->add_subcommand("power", "What power budgets cost, and how well jobs keep them");
  auto arguments = std::make_shared<power_arguments>();
  verb->add_option("--leaves", arguments->plan.leaves, "Children of the node (default 10000)")
      ->within(1, 100000);
  verb->add_option("--ticks", arguments->plan.ticks, "Measured (default 200)")->within(1, 100000);
  verb->add_option("--seed", arguments->plan.seed, "Of wishes and budgets (default 1)");
  verb->add_option("--follow", arguments->follow,
                   "A CSV of t_s,watts that the devices' budget follows; without it one that falls")
      ->type_name("FILE");
  verb->add_option("--only", arguments->only,
                   "Only this part: tree (decisions, timed), devices (12,288 simulated ones under "
                   "a budget that falls), live (a job on this machine), "
                   "shared (two, and `troupe power serve`), cgroup (the same with power.control "
                   "= cgroup, which needs a cpu controller that this user may write: only where it "
                   "is named) or brake (two whose budget is cut and whose brake is pulled, until "
                   "that holds: only where it is named)")
      ->delimiter(',')
      ->one_of({"tree", "devices", "live", "shared", "cgroup", "brake"});
  verb->add_option("--rounds", arguments->live.rounds,
                   "Interleaved rounds of live, shared and cgroup")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--steps", arguments->live.steps, "Of each of live's jobs")
      ->within(4, 1'000'000)
      ->capture_default_str();
  std::vector<std::string> ways;
  for (const auto& w : power_bench::budget_ways) ways.emplace_back(w.id);
  verb->add_option("--seconds", arguments->shared.seconds,
                   "That shared and cgroup watch both jobs, from their first steps on")
      ->within(1.0, 100'000.0)
      ->capture_default_str();
  verb->add_option("--repeats", arguments->overloads.repeats,
                   "Cuts and brakes of the part brake, some 25 s for one of each")
      ->within(1, 10'000)
      ->capture_default_str();
  verb->add_option("--ways", arguments->live.ways, "Of live, only these and none, e.g. tight")
      ->delimiter(',')
      ->one_of(ways);
  verb->add_option("--set", arguments->live.sets,
                   "A setting of these jobs, KEY=VALUE; may be given often");
  verb->add_option("--dir", arguments->dir,
                   "Where a temporary folder for them is made, removed at the end; without it the "
                   "system's");
  verb->add_flag("--json", arguments->json, "As one JSON object");
  on_run(sh, verb, [arguments] { return run_power(*arguments); });
}

}  // namespace troupe::apps
