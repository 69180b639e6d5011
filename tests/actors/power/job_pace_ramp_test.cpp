// A job's pace on a ramp, by schedules of budgets, holds, rests and new ranks in virtual time.
#include <algorithm>
#include <deque>
#include <string>

#include <doctest/doctest.h>

#include "actors/power/job_pace_policy.hpp"
#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t tick_ns = 100'000'000, second_ns = 1'000'000'000;

/// One machine that is read each second, and a job whose steps take a pace as they begin.
struct ramped_job {
  double idle_w = 100, work_w = 900, limit_w = 1000;
  double step_s = 0.5;  ///< at full speed
  job_pace_policy policy;
  int64_t now = 0;
  double used_j = 0, last_j = 0;
  uint64_t step = 0;
  work_pace pace{0};
  double left_s = 0;  ///< of the step, at full speed
  bool rests = false;
  std::deque<double> drawn;  ///< of each tick, newest last

  double drawn_w() const { return idle_w + (step > 0 && !rests ? work_w * pace.share() : 0); }
  void begin_step() {
    const auto v = policy.decide(now);
    if (v.holds) {
      if (step > 0) policy.steps(0, v.pace, now);
      step = 0;
      return;
    }
    pace = v.pace;
    left_s = step_s;
    policy.steps(++step, pace, now);
  }
  void tick() {
    if (!rests && (step == 0 || left_s <= 0)) begin_step();
    const double s = static_cast<double>(tick_ns) / 1e9;
    if (!rests) left_s -= s * pace.share();
    used_j += drawn_w() * s;
    drawn.push_back(drawn_w());
    now += tick_ns;
    if (now % second_ns != 0) return;
    power_reading said{used_j - last_j, used_j, true, now, second_ns, limit_w};
    last_j = used_j;
    policy.hear("node0", "boot", said, now);
  }
  void pass(double s) {
    for (int i = 0; i < s * 10; ++i) tick();
  }
};

}  // namespace

TEST_CASE("JPP-10: a start rises by the slope, also without a budget, and says until when") {
  ramped_job j;
  j.policy.set_ramp(30);
  j.pass(3);
  const auto v = j.policy.decide(j.now);
  REQUIRE(v.ramps_to);
  CHECK(*v.ramps_to == work_pace{});
  REQUIRE(v.ramp_ns);
  CHECK(static_cast<double>(*v.ramp_ns) / 1e9 == doctest::Approx(28).epsilon(0.2));
  CHECK(j.policy.decided().find("by 30 W a second, to 100 %") != std::string::npos);
  j.pass(12);
  CHECK(j.pace.share() < 0.6);
  j.pass(60);  // slow steps are long, and each rises by a second's watts at most
  CHECK(j.pace == work_pace{});
  CHECK(!j.policy.decide(j.now).ramps_to);
  CHECK(j.policy.decided().find("a second") == std::string::npos);
}

TEST_CASE("JPP-10: no ramp begins while nothing says what the machines draw") {
  job_pace_policy policy;
  policy.set_ramp(30);
  policy.hear("node0", "", {}, 0);
  CHECK(policy.decide(0).holds);
  policy.hear("node0", "", {}, 11 * second_ns);
  const auto v = policy.decide(11 * second_ns);
  CHECK(v.holds);
  CHECK(v.why.find("a ramp of 30 W a second") != std::string::npos);
}

TEST_CASE(
    "JPP-10: grants, holds, rests and new ranks make no rise steeper, and no budget is left") {
  sim::rng random(5);
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    ramped_job j;
    j.step_s = 0.1 + 2 * random.unit();
    const double slope_w_s = 20 + 80 * random.unit();
    j.policy.set_ramp(slope_w_s);
    double cap_w = 1000;
    j.policy.set_budget(cap_w);
    int after_rest = 0;
    for (int s = 0; s < 300; ++s) {
      if (random.chance(0.05)) {
        cap_w = 300 + 700 * random.unit();
        j.policy.set_budget(cap_w);
      }
      if (random.chance(0.03)) j.policy.hold(random.chance(0.7) ? "" : "the budget says so");
      if (random.chance(0.02)) j.policy.ranks_changed(j.now);
      const bool rested = j.rests;
      if (random.chance(0.03)) j.policy.rest(j.rests = !j.rests, j.now);
      // The rest of its step goes on at the pace that it has: that rise is no ramp's.
      if (rested && !j.rests) after_rest = static_cast<int>(j.drawn.size());
      for (int i = 0; i < 10; ++i) {
        const auto step = j.step;
        j.tick();
        if (j.step > step && !j.rests)
          CHECK(j.drawn.back() <= std::max(cap_w * 1.001, j.idle_w + j.work_w / 20 + 1));
      }
      const auto to = j.drawn.size() - 1;
      for (size_t from = static_cast<size_t>(after_rest); from < to; from += 7) {
        const double dt = static_cast<double>(to - from) / 10;
        // A second's, or the least pace's, beside the slope.
        REQUIRE(j.drawn[to] - j.drawn[from] <= slope_w_s * dt + std::max(slope_w_s, 46.0) + 1);
      }
    }
  }
}
