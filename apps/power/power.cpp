// `troupe power`: registration, and what its verbs read.
#include "apps/power/power.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.hpp"
#include "apps/power/swings.hpp"
#include "io/base/text.hpp"
#include "io/file.hpp"
#include "io/formats/number_table.hpp"

namespace troupe::apps {

namespace power_verb {

namespace {

constexpr size_t most_profile_bytes = 16 << 20;
constexpr double ladder_actuation_s = 2;

}  // namespace

void add_rules(command* verb, policy_arguments& a) {
  auto& r = a.row;
  const auto add = [&](const std::string& name, auto& into, const std::string& about) {
    auto* it = verb->add_option(name, into, about);
    a.without_table.emplace_back(name, it);
    return it;
  };
  a.budget = add("--budget-w", r.budget_w, "What the breaker carries, in watts");
  add("--policy", a.policy, "polca, ladder, none (the brake alone), low or all");
  a.t1 = add("--t1", r.thresholds.t1, "First threshold, of the budget");
  a.t2 = add("--t2", r.thresholds.t2, "Second threshold");
  a.t3 = add("--t3", r.thresholds.t3, "Third threshold, the ladder's");
  a.actuation = add("--actuation-s", r.actuation_s, "Seconds until clocks follow a command");
  a.telemetry = add("--telemetry-s", r.telemetry_s, "Seconds between two readings of the row");
  add("--lp-share", r.lp_share, "Of the servers, those of low priority");
}

void add_policy(command* verb, policy_arguments& a) {
  auto& r = a.row;
  const auto add = [&](const std::string& name, auto& into, const std::string& about) {
    auto* it = verb->add_option(name, into, about);
    a.without_table.emplace_back(name, it);
    return it;
  };
  a.servers = add("--servers", r.servers, "Servers under the breaker");
  add_rules(verb, a);
  verb->add_option("--seed", r.seed, "Everything follows from it");
  verb->add_option("--weeks", r.weeks, "Weeks");
}

status settle(policy_arguments& a) {
  const auto& names = power::row_rule_names;
  const auto it = std::find(names.begin(), names.end(), a.policy);
  if (it == names.end()) {
    const auto near = nearest(a.policy, names);
    return error{errc::usage, fmt::format("unknown policy: {}", a.policy),
                 near.empty() ? "it is polca, ladder, none, low or all"
                              : fmt::format("did you mean {}?", near)};
  }
  a.row.rule = static_cast<power::row_rule>(it - names.begin());
  if (a.row.rule == power::row_rule::ladder) {
    constexpr auto usual = power::thresholds_of(power::row_rule::ladder);
    if (a.t1->count() == 0) a.row.thresholds.t1 = usual.t1;
    if (a.t2->count() == 0) a.row.thresholds.t2 = usual.t2;
    if (a.t3->count() == 0) a.row.thresholds.t3 = usual.t3;
    if (a.actuation->count() == 0) a.row.actuation_s = ladder_actuation_s;
  }
  return check(a.row);
}

result<std::vector<double>> read_profile(const std::string& path, const std::string& column) {
  TROUPE_TRY(text, io::read_file(path, most_profile_bytes));
  auto table = io::parse_number_table(text);
  if (!table) return table.error().within(path);
  const auto it = std::find(table->names.begin(), table->names.end(), column);
  if (it == table->names.end()) {
    const std::vector<std::string_view> known(table->names.begin(), table->names.end());
    const auto near = nearest(column, known);
    return error{errc::usage, fmt::format("{} has no column {}", path, column),
                 near.empty() ? fmt::format("its heading is {}", fmt::join(known, ","))
                              : fmt::format("did you mean {}?", near)};
  }
  const auto i = static_cast<size_t>(it - table->names.begin());
  std::vector<double> out;
  for (size_t row = 0; row < table->rows(); ++row) {
    out.push_back(i == 0 ? table->first[row] : static_cast<double>(table->others[i - 1][row]));
    if (out.back() < 0)
      return io::bad_number_table(table->line_of(row),
                                  fmt::format("{} is {}, below 0", column, out.back()))
          .within(path);
  }
  if (out.empty() || *std::max_element(out.begin(), out.end()) <= 0)
    return error{errc::bad_data, fmt::format("{}: {} has no row above 0", path, column),
                 "a row is the rate of requests in a bin of 10 minutes, in any unit"};
  return out;
}

void in_parallel(size_t count, const std::function<void(size_t)>& one,
                 const std::function<void(size_t done)>& told) {
  std::atomic<size_t> next = 0;
  std::mutex talking;
  size_t done = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      one(i);
      const std::lock_guard alone(talking);
      told(++done);
    }
  };
  std::vector<std::thread> threads;
  const auto wanted = std::min<size_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  for (size_t i = 1; i < wanted; ++i) threads.emplace_back(work);
  work();
  for (auto& t : threads) t.join();
}

namespace {

void add_power_sim(shell& sh, command* power) {
  auto* verb = power->add_subcommand("sim", "Simulate a row of servers over weeks");
  auto a = std::make_shared<sim_arguments>();
  add_policy(verb, a->policy);
  const auto add = [&](const std::string& name, auto& into, const std::string& about) {
    a->policy.without_table.emplace_back(name, verb->add_option(name, into, about));
  };
  add("--power-scale", a->policy.row.power_scale, "Watts of busy GPUs, times this");
  add("--release-groups", a->policy.row.release_groups,
      "After a brake, release servers in so many groups, by chance");
  add("--out", a->out, "Write t_s,watts of each tick into this file");
  add("--journal", a->journal, "Write each decision into this file, as JSON lines");
  add("--svg", a->svg, "Draw watts, caps and brakes into this file");
  verb->add_option("--rates", a->rates, "Requests by time: a CSV, a row each 10 minutes");
  a->column_given = verb->add_option("--rates-column", a->column, "Which column of it");
  verb->add_flag("--table", a->table, "Run what POLCA is judged by, and judge it");
  verb->add_flag("--json", a->json, "As one JSON object");
  on_run(sh, verb, [a] { return run_sim(*a); });
}

void add_power_plan(shell& sh, command* power) {
  auto* verb = power->add_subcommand("plan", "How many servers a row's own trace has room for");
  auto a = std::make_shared<plan_arguments>();
  verb->add_option("trace", a->trace, "CSV: t_s,watts, or t_s and a column for each server")
      ->required();
  add_policy(verb, a->policy);
  verb->add_option("--resamples", a->resamples, "Rows that are drawn from the trace's weeks");
  verb->add_option("--svg", a->svg, "Draw peaks and what caps cost, by servers, into this file");
  verb->add_flag("--json", a->json, "As one JSON object");
  on_run(sh, verb, [a] { return run_plan(*a); });
}

void add_power_replay(shell& sh, command* power) {
  auto* verb = power->add_subcommand("replay", "Decide a journal or a trace of watts once more");
  auto a = std::make_shared<replay_arguments>();
  verb->add_option("file", a->file,
                   "What --journal wrote, power.inputs of a budget, or a CSV of watts as for plan")
      ->required();
  add_rules(verb, a->policy);
  verb->add_option("--journal", a->journal, "Write a trace's decisions into this file");
  verb->add_flag("--json", a->json, "As one JSON object");
  on_run(sh, verb, [a] { return run_replay(*a); });
}

}  // namespace

}  // namespace power_verb

void add_power(shell& sh) {
  auto* verb =
      sh.app.add_subcommand("power", "More servers under one breaker, clocks that cost less");
  verb->require_subcommand(1);
  power_verb::add_power_sim(sh, verb);
  power_verb::add_frontier(sh, verb);
  power_verb::add_slack(sh, verb);
  power_verb::add_power_plan(sh, verb);
  power_verb::add_power_replay(sh, verb);
  power_verb::add_swings(sh, verb);
  power_verb::add_status(sh, verb);
  power_verb::add_serve(sh, verb);
  power_verb::add_tree(sh, verb);
  power_verb::add_why(sh, verb);
  power_verb::add_budget(sh, verb);
  power_verb::add_brake(sh, verb);
  power_verb::add_show(sh, verb);
  power_verb::add_agent(sh, verb);
  power_verb::add_restore(sh, verb);
}

}  // namespace troupe::apps
