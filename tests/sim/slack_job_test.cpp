// A whole simulated job that takes slack, with the real pacer, run, stages and workers: steps stay
// as long, operations that delay nobody run at lower clocks, and losses are the same.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/pacer.hpp"
#include "actors/sim/simulation.hpp"
#include "actors/sim/world.hpp"
#include "tests/actors/power/slack_profiles.hpp"
#include "tests/sim/powered_run.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;
using troupe::sim::test::as;

namespace {

constexpr int clocked_stages = 4, clocked_micro_batches = 8;

power::planned_slack_ptr plan_of_simulated() {
  static const power::planned_slack_ptr it = [] {
    auto out = std::make_shared<power::planned_slack>();
    out->policy = std::make_unique<power::frontier_policy>(power::a100_form(clocked_stages),
                                                           clocked_micro_batches, 84);
    out->plan = power::plan_slack(*out->policy, power::planned_frontier(*out->policy), out->set_s);
    return out;
  }();
  return it;
}

/// Two replicas of four stages, whose devices take what the profile says.
simulation_options clocked_job(bool takes_slack) {
  simulation_options o;
  o.nodes = 2 * clocked_stages;
  o.pipeline = clocked_stages;
  o.micro_batches = clocked_micro_batches;
  o.steps = 40;
  o.checkpoint_every = 0;
  o.times.jitter = 0.001;
  const auto profile = power::a100_form(clocked_stages);
  for (int s = 0; s < clocked_stages; ++s) {
    const auto ns = [&](power::instruction which) {
      return static_cast<int64_t>(profile.rows(s, which).front().time_s * 1e9);
    };
    o.times.stages.push_back({ns(power::instruction::forward), ns(power::instruction::backward),
                              o.times.update_ns, o.times.save_ns});
  }
  o.slack = takes_slack;
  if (takes_slack)
    o.beside = [](world& w, train::spawn_record& r) {
      auto of = power::pacer_options_of(r.plan.job.power, r.epoch);
      of.slack = [] { return plan_of_simulated(); };
      r.pacer = w.spawn(0, power::pacer, std::move(of));
    };
  return o;
}

struct clocked_run {
  std::map<uint64_t, double> step_ms, losses;
  std::map<uint64_t, std::string> states;
  std::map<uint64_t, std::set<uint32_t>> clocks;  ///< by step, of all ranks
};

clocked_run run_clocked(simulation_options o) {
  clocked_run out;
  o.sees = [&](const any_msg& m, int64_t) {
    if (const auto* step = as<fbs::RunStep>(m); step != nullptr && step->clocks() != nullptr)
      for (const auto mhz : *step->clocks()->mhz()) out.clocks[step->step()].insert(mhz);
    if (const auto* report = as<fbs::StepReport>(m)) {
      out.step_ms[report->step()] = report->step_ms();
      out.losses[report->step()] = report->loss();
      out.states[report->step()] = report->slack() ? report->slack()->str() : "";
    }
  };
  const auto done = simulate(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
  CHECK(done->ends == std::vector<std::string>{"success"});
  return out;
}

/// Of the last ten steps.
double mean_ms(const clocked_run& of) {
  double sum = 0;
  for (auto it = std::prev(of.step_ms.end(), 10); it != of.step_ms.end(); ++it) sum += it->second;
  return sum / 10;
}

}  // namespace

TEST_CASE("PWR-4: a simulated job takes its slack: steps as long, lower clocks, the same losses") {
  const auto plain = run_clocked(clocked_job(false));
  const auto clocked = run_clocked(clocked_job(true));
  CHECK(clocked.losses == plain.losses);
  CHECK(plain.states.rbegin()->second.empty());
  CHECK(plain.clocks.empty());
  CHECK(clocked.states.rbegin()->second == "planned");
  REQUIRE_FALSE(clocked.clocks.empty());
  CHECK(clocked.clocks.begin()->first > 5);  // measured first
  const auto& last = clocked.clocks.rbegin()->second;
  CHECK(*last.begin() < 1300);
  CHECK(*last.rbegin() == 1410);
  CHECK(mean_ms(clocked) <= 1.01 * mean_ms(plain));
}

TEST_CASE(
    "SLT-3: a simulated job whose last machine is slow has the other replica wait in its clocks") {
  auto o = clocked_job(false);
  o.times.slowness.assign(static_cast<size_t>(o.nodes), 1.0);
  o.times.slowness.back() = 1.15;
  const auto plain = run_clocked(o);
  auto with = clocked_job(true);
  with.times.slowness = o.times.slowness;
  const auto clocked = run_clocked(with);
  CHECK(clocked.states.rbegin()->second == "held");
  CHECK(clocked.losses == plain.losses);
  CHECK(mean_ms(clocked) <= 1.01 * mean_ms(plain));
}
