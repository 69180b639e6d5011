// Slack on simulated devices: the step stays as long, joules are the plan's, a straggler is
// followed and let go, and devices that are late end it.
#include "actors/sim/slack/slack_sim.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "io/base/error.hpp"
#include "tests/actors/power/slack_profiles.hpp"

using namespace troupe;
using namespace troupe::sim;
using power::slack_state;

namespace {

struct simulated_slack {
  explicit simulated_slack(const slack_options& o)
      : options(o), plan(power::plan_slack(policy(), found(), o.set_s)) {
    with = simulate_slack(policy(), plan, o);
    auto plain = o;
    plain.slack = false;
    without = simulate_slack(policy(), plan, plain);
  }
  double devices() const { return options.replicas * 4.0; }

  /// Four stages of eight micro-batches.
  static power::frontier_policy& policy() {
    static power::frontier_policy it(power::a100_form(4), 8, blocking_w);
    return it;
  }
  static const power::frontier& found() {
    static const power::frontier it = power::planned_frontier(policy());
    return it;
  }
  static constexpr double blocking_w = 84;

  slack_options options;
  power::slack_plan plan;
  std::vector<slack_step> with, without;
};

uint64_t late_in(const std::vector<slack_step>& steps) {
  uint64_t out = 0;
  for (const auto& s : steps) out += s.late;
  return out;
}

}  // namespace

TEST_CASE("slack: the step stays as long as it is, and joules are within 1 % of the plan's") {
  for (const double set_s : {0.0, 0.005, 0.01}) {
    CAPTURE(set_s);
    slack_options o;
    o.steps = 20;
    o.set_s = set_s;
    const simulated_slack job(o);
    const auto& planned = job.plan.points[job.plan.unchanged()].cost;
    for (size_t i = 0; i < job.with.size(); ++i) {
      CAPTURE(i);
      const auto& s = job.with[i];
      CHECK(s.state == (i < 3 ? slack_state::measuring : slack_state::planned));
      CHECK(s.step_s <= 1.005 * job.without[i].step_s);
      if (i < 3) {
        CHECK(s.energy_j == job.without[i].energy_j);
        continue;
      }
      const double waits_j =
          (s.step_s - planned.time_s) * simulated_slack::blocking_w * job.devices();
      CHECK(s.energy_j == doctest::Approx(o.replicas * planned.energy_j + waits_j).epsilon(0.01));
      CHECK(s.energy_j < 0.95 * job.without[i].energy_j);
    }
    CHECK(late_in(job.with) == 0);
  }
}

TEST_CASE("slack: a straggler of 1.2 is followed after three steps, and let go in one") {
  slack_options o;
  o.steps = 30;
  o.replicas = 4;
  o.straggler = 1.2;
  o.straggler_from = 10;
  o.straggler_until = 20;
  const simulated_slack job(o);
  const double t_star_s = job.plan.points[job.plan.least].cost.time_s;
  const double held_s = std::min(1.2 * job.plan.highest.time_s, t_star_s);
  for (size_t i = 3; i < job.with.size(); ++i) {
    CAPTURE(i);
    const auto& s = job.with[i];
    // Three steps until it counts; one until it is seen that it has gone.
    const bool held = i >= 13 && i <= 20;
    CHECK(s.state == (held ? slack_state::held : slack_state::planned));
    CHECK(s.straggles == held);
    CHECK(s.target_s == doctest::Approx(held ? held_s : job.plan.highest.time_s).epsilon(0.003));
    if (i != 20) CHECK(s.step_s <= 1.005 * job.without[i].step_s);
    if (i > 13 && held && i != 20) CHECK(s.energy_j < 0.99 * job.with[12].energy_j);
  }
  CHECK(job.with[20].step_s <= 1.01 * held_s);
  CHECK(late_in(job.with) == 0);
}

TEST_CASE("slack: devices that set clocks later than is known cost a step or two, and it is off") {
  slack_options o;
  o.steps = 30;
  o.late_s = 0.05;
  o.late_from = 10;
  const simulated_slack job(o);
  CHECK(job.with[9].state == slack_state::planned);
  CHECK(job.with[9].late == 0);
  CHECK(job.with[10].late > 0);
  CHECK(job.with[12].state == slack_state::off);
  CHECK(job.with[12].reason == power::slack_reason::late_setting);
  for (size_t i = 13; i < job.with.size(); ++i) {
    CHECK(job.with[i].step_s == doctest::Approx(job.without[i].step_s).epsilon(1e-9));
    CHECK(job.with[i].energy_j == doctest::Approx(job.without[i].energy_j).epsilon(1e-9));
    CHECK(job.with[i].changes == 0);
  }
}

TEST_CASE("SLS-1: the same options give the same steps, another seed others") {
  slack_options o;
  o.steps = 8;
  const simulated_slack one(o), again(o);
  o.seed = 2;
  const simulated_slack other(o);
  for (size_t i = 0; i < one.with.size(); ++i) {
    CHECK(one.with[i].step_s == again.with[i].step_s);
    CHECK(one.with[i].energy_j == again.with[i].energy_j);
    CHECK(one.with[i].step_s != other.with[i].step_s);
  }
}

TEST_CASE("SLS-2: at the highest clocks joules are the profile's, and of waiting") {
  slack_options o;
  o.steps = 2;
  o.uneven = 0;
  o.slack = false;
  const simulated_slack job(o);
  for (const auto& s : job.with) {
    CHECK(s.step_s == doctest::Approx(job.plan.highest.time_s).epsilon(1e-9));
    CHECK(s.energy_j == doctest::Approx(o.replicas * job.plan.highest.energy_j).epsilon(1e-9));
    CHECK(s.changes == 0);
  }
}

TEST_CASE("slack: options beyond their bounds are refused with their name") {
  const auto refused = [](auto change, std::string_view name, size_t operations = 64) {
    slack_options o;
    change(o);
    const auto read = check(o, operations);
    REQUIRE(!read);
    CHECK(read.error().code == errc::usage);
    CHECK(read.error().message.find(name) != std::string::npos);
    CHECK(!read.error().hint.empty());
  };
  CHECK(check(slack_options{}, 64));
  refused([](auto& o) { o.replicas = 0; }, "--replicas");
  refused([](auto& o) { o.replicas = slack_options::most_slack_replicas + 1; }, "--replicas");
  refused([](auto& o) { o.steps = 0; }, "--steps");
  refused([](auto& o) { o.steps = slack_options::most_slack_steps + 1; }, "--steps");
  refused([](auto& o) { o.set_s = -1; }, "--set-ms");
  refused([](auto& o) { o.late_s = 11; }, "--late-ms");
  refused([](auto& o) { o.straggler = 0.5; }, "--straggler");
  refused([](auto& o) { o.steps = 10'000; }, "operations", 8192);
}
