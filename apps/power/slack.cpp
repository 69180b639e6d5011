// `troupe power slack`: the clocks of a frontier on simulated devices, step by step, beside the
// same steps at the highest clocks.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/power/slack_plan.hpp"
#include "actors/sim/slack/slack_sim.hpp"
#include "apps/power/frontier.hpp"
#include "apps/power/power.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "trace/text.hpp"

namespace troupe::apps::power_verb {

namespace {

using troupe::power::slack_plan;
using troupe::power::slack_state;

struct slack_typed : pipeline_typed {
  sim::slack_options options;
  double set_ms = 10, late_ms = 0;
  std::string control = "nvml_clocks";
  bool json = false;
};

/// What was simulated, with slack and without.
struct slack_told {
  const troupe::power::frontier_policy& policy;
  const slack_plan& plan;
  sim::slack_options options;
  std::vector<sim::slack_step> with, without;

  /// Steps of one kind from `from` on: until where.
  size_t alike_until(size_t from) const;
  /// Of steps at the plan's point, without a straggler: the share of energy, and of time more.
  double saved() const { return 1 - unheld(&sim::slack_step::energy_j); }
  double longer() const { return unheld(&sim::slack_step::step_s) - 1; }
  double saved_by_plan() const {
    return 1 - plan.points[plan.unchanged()].cost.energy_j / plan.highest.energy_j;
  }

 private:
  bool is_held(size_t step) const {
    const auto s = static_cast<int>(step);
    return options.straggler > 1 && s >= options.straggler_from && s < options.straggler_until;
  }
  double unheld(double sim::slack_step::*of) const {
    double ours = 0, plain = 0;
    for (size_t i = 0; i < with.size(); ++i) {
      if (with[i].state != slack_state::planned || is_held(i)) continue;
      ours += with[i].*of;
      plain += without[i].*of;
    }
    return plain > 0 ? ours / plain : 1;
  }
};

size_t slack_told::alike_until(size_t from) const {
  size_t i = from + 1;
  while (i < with.size() && with[i].state == with[from].state &&
         with[i].reason == with[from].reason && with[i].straggles == with[from].straggles &&
         is_held(i) == is_held(from) &&
         std::abs(with[i].target_s - with[from].target_s) < 0.01 * with[from].target_s + 1e-9)
    ++i;
  return i;
}

std::string state_of(const sim::slack_step& s) {
  const std::string state(to_string(s.state));
  return s.state == slack_state::off ? fmt::format("{}: {}", state, to_string(s.reason)) : state;
}

std::string slack_text(const slack_told& t) {
  const auto& o = t.options;
  auto out = fmt::format(
      "{:.2f} % of a step's energy is saved by steps that are {:+.2f} % longer; the plan says "
      "{:.2f} %\n{}, {}, {}, {} W while a device waits, {:g} ms to set a clock\n\n",
      100 * t.saved(), 100 * t.longer(), 100 * t.saved_by_plan(),
      counted(t.policy.dag().stages(), "stage"),
      counted(t.policy.dag().micro_batches(), "micro-batch", "micro-batches"),
      counted(o.replicas, "replica"), t.policy.blocking_w(), 1000 * o.set_s);
  std::vector<std::vector<std::string>> table = {{"steps", "slack", "aims at", "a step", "without",
                                                  "energy", "without", "clocks set", "too late"}};
  for (size_t i = 0; i < t.with.size();) {
    const size_t until = t.alike_until(i);
    const auto mean = [&](const auto& steps, auto of) {
      double sum = 0;
      for (size_t k = i; k < until; ++k) sum += static_cast<double>(steps[k].*of);
      return sum / static_cast<double>(until - i);
    };
    const auto& first = t.with[i];
    table.push_back({until == i + 1 ? fmt::format("{}", i) : fmt::format("{}-{}", i, until - 1),
                     state_of(first),
                     first.target_s > 0 ? fmt::format("{:.5g} s", first.target_s) : "",
                     fmt::format("{:.5g} s", mean(t.with, &sim::slack_step::step_s)),
                     fmt::format("{:.5g} s", mean(t.without, &sim::slack_step::step_s)),
                     fmt::format("{:.6g} J", mean(t.with, &sim::slack_step::energy_j)),
                     fmt::format("{:.6g} J", mean(t.without, &sim::slack_step::energy_j)),
                     fmt::format("{:.0f}", mean(t.with, &sim::slack_step::changes)),
                     fmt::format("{:.0f}", mean(t.with, &sim::slack_step::late))});
    i = until;
  }
  return out + trace::table_text(std::move(table), 0);
}

nlohmann::ordered_json cost_json(const troupe::power::table_cost& c) {
  return {{"time_s", c.time_s}, {"energy_j", c.energy_j}};
}

std::string slack_json(const slack_told& t) {
  nlohmann::ordered_json j = {{"format", 1},
                              {"stages", t.policy.dag().stages()},
                              {"micro_batches", t.policy.dag().micro_batches()},
                              {"replicas", t.options.replicas},
                              {"blocking_w", t.policy.blocking_w()},
                              {"set_ms", 1000 * t.options.set_s},
                              {"highest_clocks", cost_json(t.plan.highest)},
                              {"unchanged", cost_json(t.plan.points[t.plan.unchanged()].cost)},
                              {"least_energy", cost_json(t.plan.points[t.plan.least].cost)},
                              {"saved", t.saved()},
                              {"saved_by_plan", t.saved_by_plan()},
                              {"longer", t.longer()}};
  auto steps = nlohmann::ordered_json::array();
  for (size_t i = 0; i < t.with.size(); ++i) {
    const auto& s = t.with[i];
    steps.push_back({{"state", to_string(s.state)},
                     {"reason", to_string(s.reason)},
                     {"target_s", s.target_s},
                     {"step_s", s.step_s},
                     {"energy_j", s.energy_j},
                     {"without_s", t.without[i].step_s},
                     {"without_j", t.without[i].energy_j},
                     {"changes", s.changes},
                     {"late", s.late}});
  }
  j["steps"] = std::move(steps);
  return j.dump();
}

/// Only clocks that are set save what slack leaves.
status check_control(const std::string& word) {
  if (word == "nvml_clocks" || word == "cpufreq") return {};
  const bool waits = word == "pace" || word == "cgroup";
  return error{
      errc::usage,
      waits ? fmt::format("\"{}\" saves no energy: the same joules, later", word)
            : fmt::format("\"{}\" sets no clocks", word),
      "--control nvml_clocks or cpufreq; without one slack is off, and nothing is claimed"};
}

result<int> run_slack(slack_typed a) {
  TROUPE_CHECK(check_control(a.control));
  auto& o = a.options;
  o.set_s = a.set_ms / 1000;
  o.late_s = a.late_ms / 1000;
  // A third of the steps is before it, and a third behind.
  o.straggler_from = o.late_from = o.steps / 3;
  o.straggler_until = o.steps - o.steps / 3;
  TROUPE_TRY(read, read_pipeline(a));
  TROUPE_CHECK(sim::check(o, read->dag().nodes().size()));
  const auto found = plan_pipeline(*read);
  const auto plan = troupe::power::plan_slack(*read, found, o.set_s);
  auto plain = o;
  plain.slack = false;
  const slack_told told{*read, plan, o, sim::simulate_slack(*read, plan, o),
                        sim::simulate_slack(*read, plan, plain)};
  TROUPE_CHECK(print(a.json ? slack_json(told) + "\n" : slack_text(told)));
  return 0;
}

}  // namespace

void add_slack(shell& sh, command* parent) {
  auto* verb = parent->add_subcommand(
      "slack", "Simulate a job whose stages run at the clocks that delay nobody");
  verb->footer(
      "Example:\n"
      "  troupe power slack profile.csv --micro-batches 12 --blocking-w 84 --straggler 1.2\n"
      "docs/power-frontier.md says what is simulated.");
  auto a = std::make_shared<slack_typed>();
  auto& o = a->options;
  add_pipeline(verb, *a);
  verb->add_option("--replicas", o.replicas, "Copies of the pipeline, which meet after each step")
      ->capture_default_str();
  verb->add_option("--steps", o.steps, "How many to simulate")->capture_default_str();
  verb->add_option("--set-ms", a->set_ms, "What setting a clock takes")->capture_default_str();
  verb->add_option("--straggler", o.straggler,
                   "In the middle third of the steps the last replica takes so many times as long")
      ->capture_default_str();
  verb->add_option("--late-ms", a->late_ms,
                   "From the middle third on setting takes so much longer than is known")
      ->capture_default_str();
  verb->add_option("--control", a->control, "What sets clocks: a word of power.control")
      ->capture_default_str();
  verb->add_option("--seed", o.seed, "Of how uneven operations are")->capture_default_str();
  verb->add_flag("--json", a->json, "As one JSON object");
  on_run(sh, verb, [a] { return run_slack(*a); });
}

}  // namespace troupe::apps::power_verb
