// `troupe bench power`: what the tree of budgets costs, as a table or JSON.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.hpp"
#include "apps/bench/power_tree.hpp"
#include "apps/bench/spread.hpp"

namespace troupe::apps {

namespace {

using power_bench::measure_tree;
using power_bench::tree_measurement;
using power_bench::tree_plan;

/// A tick of 10,000 leaves; of others in proportion.
constexpr double aim_ms = 10;
constexpr int aim_leaves = 10'000;

struct power_arguments {
  tree_plan plan;
  bool json = false;
};

double p99(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[(x.size() * 99 - 1) / 100];
}

nlohmann::ordered_json json_of(const tree_plan& plan, const tree_measurement& m) {
  nlohmann::ordered_json out{
      {"mode", power::budget_mode_names[static_cast<size_t>(plan.mode)]},
      {"leaves", plan.leaves},
      {"ticks", plan.ticks},
      {"tick_ms", json_of(spread_of(m.tick_ms))},
      {"tick_p99_ms", p99(m.tick_ms)},
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
                     tick.median, p99(m.tick_ms), tick.most, hear.median,
                     static_cast<double>(m.grants) / plan.ticks,
                     static_cast<double>(m.changes) / plan.ticks);
}

result<int> run_power(const power_arguments& arguments) {
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
    met = met && p99(m.tick_ms) * aim_leaves <= aim_ms * plan.leaves;
    if (arguments.json)
      rows.push_back(json_of(plan, m));
    else
      TROUPE_CHECK(print(row_of(plan, m)));
  }
  if (arguments.json) {
    TROUPE_CHECK(print(rows.dump() + "\n"));
    return 0;
  }
  TROUPE_CHECK(print(fmt::format(
      "a tick is the parent's decision; reports: to hear one of each leaf before it. Grants and "
      "caps\nthat changed are means of a tick. The aim, {:.3g} ms for {} leaves at the 99th "
      "percentile, is {}\n",
      aim_ms * plan.leaves / aim_leaves, plan.leaves, met ? "met" : "missed")));
  return 0;
}

}  // namespace

void add_bench_power(shell& sh, command* bench) {
  auto* verb = bench->add_subcommand("power", "What a tick of a tree of power budgets takes");
  auto arguments = std::make_shared<power_arguments>();
  verb->add_option("--leaves", arguments->plan.leaves, "Children of the node (default 10000)")
      ->within(1, 100000);
  verb->add_option("--ticks", arguments->plan.ticks, "Measured (default 200)")->within(1, 100000);
  verb->add_option("--seed", arguments->plan.seed, "Of wishes and budgets (default 1)");
  verb->add_flag("--json", arguments->json, "As one JSON array");
  on_run(sh, verb, [arguments] { return run_power(*arguments); });
}

}  // namespace troupe::apps
