// `troupe power`: rows of servers under one breaker, simulated and planned.
//
// The thinking is in actors/power (the policy) and actors/sim/row (the simulator, the plan); here
// is what the command line says of them and what is shown.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actors/power/row_journal.hpp"
#include "actors/power/row_trace.hpp"
#include "actors/sim/row/row_plan.hpp"
#include "actors/sim/row/row_sim.hpp"
#include "apps/command_line.hpp"
#include "apps/progress_line.hpp"
#include "apps/shell.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::power_verb {

/// Options that the verbs share.
struct policy_arguments {
  sim::row_options row;
  std::string policy = "polca";
  argument *servers = nullptr, *budget = nullptr;
  argument *t1 = nullptr, *t2 = nullptr, *t3 = nullptr, *actuation = nullptr;
  argument* telemetry = nullptr;
  /// Options that have no meaning with --table, which runs what POLCA is judged by.
  std::vector<std::pair<std::string, argument*>> without_table = {};
};
void add_policy(command* verb, policy_arguments& into);
/// Those of them that rules follow from.
void add_rules(command* verb, policy_arguments& into);
/// The rule by its name, and the ladder's own thresholds and actuation where none are given. Error:
/// usage.
status settle(policy_arguments& a);

/// Requests by time, of a column of a CSV whose rows are bins of 10 minutes. Errors: bad_data,
/// not_found, usage (no such column).
result<std::vector<double>> read_profile(const std::string& path, const std::string& column);

/// Calls `one(i)` for each i below `count`, on as many threads as the machine has cores; `told`
/// after each, by one thread at a time.
void in_parallel(size_t count, const std::function<void(size_t)>& one,
                 const std::function<void(size_t done)>& told);

struct sim_arguments {
  policy_arguments policy;
  std::string rates, column = "conv_req_per_min", out, svg, journal;
  bool table = false, json = false;
  argument* column_given = nullptr;
};
result<int> run_sim(sim_arguments& a);
result<int> run_table(const sim_arguments& a);

struct plan_arguments {
  static constexpr int most_resamples = 1000;

  policy_arguments policy;
  std::string trace, svg;
  int resamples = 20;
  bool json = false;
};
result<int> run_plan(plan_arguments& a);
/// A row's trace of watts. Errors: not_found, io, bad_trace, not_watts, with its path.
result<power::row_trace> read_trace(const std::string& path);

struct replay_arguments {
  policy_arguments policy;
  std::string file, journal;
  bool json = false;
};
/// 1: a decision differs.
result<int> run_replay(replay_arguments& a);
/// The terms of a row's policy, for its journal.
power::row_terms terms_of(const sim::row_options& o);

// -- what is shown --------------------------------------------------------------------------------

/// A simulation, and what it was made from.
struct row_told {
  std::string policy;
  sim::row_options options;
  sim::row_outcome outcome;
  std::vector<sim::row_tick> ticks;  ///< none: nobody asked for them
};
/// "80-89".
std::string thresholds_text(const sim::row_options& o);
/// Servers beyond those of the budget's row, in percent of them.
double added_percent(const sim::row_options& o);
/// The columns of a table of runs, as a JSON object.
std::string row_json(const row_told& told);
std::string row_text(const row_told& told);
/// `t_s,watts`, a line a tick.
std::string trace_csv(const row_told& told);
std::string row_svg(const row_told& told);

/// A plan, and what it was made from.
struct plan_told {
  const sim::row_plan& plan;
  std::string answer, policy;  ///< in words
  int servers = 0;
  double budget_w = 0;
  size_t resamples = 0;
};
std::string plan_svg(const plan_told& told);

/// `troupe power frontier`: which clocks cost a pipeline least at every length of its step.
void add_frontier(shell& sh, command* parent);
/// `troupe power slack`: what they come to on devices that take time to set a clock (slack.cpp).
void add_slack(shell& sh, command* parent);

/// `troupe power status`: what a running job draws (power_status.hpp).
void add_status(shell& sh, command* parent);

/// `troupe power serve`: the process that holds a budget (power_serve.hpp).
void add_serve(shell& sh, command* parent);
/// `troupe power tree`, `troupe power why`, `troupe power budget` and `troupe power brake`: who has
/// which watts of it, what keeps others from them, how many it has, and whether its children may
/// work.
void add_tree(shell& sh, command* parent);
void add_why(shell& sh, command* parent);
void add_budget(shell& sh, command* parent);
void add_brake(shell& sh, command* parent);

/// `troupe power show`: what a served budget saw (power_show.hpp).
void add_show(shell& sh, command* parent);

/// `troupe power agent`: joins a machine without a job to a budget (power_agent.hpp).
void add_agent(shell& sh, command* parent);

/// `troupe power restore`: undoes what dead processes have left changed (power_restore.hpp).
void add_restore(shell& sh, command* parent);

}  // namespace troupe::apps::power_verb
