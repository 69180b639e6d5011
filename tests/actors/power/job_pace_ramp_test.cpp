// A job's pace on a ramp, by schedules of budgets, holds, rests and new ranks in virtual time.
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/job_pace_policy.hpp"
#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t ramp_tick_ns = 100'000'000, ramp_second_ns = 1'000'000'000;

/// One machine that is read each second, and a job whose steps take a pace as they begin.
struct ramped_job {
  double idle_w = 100, work_w = 900, limit_w = 1000;
  double step_s = 0.5;   ///< at full speed
  double unseen_w = 0;   ///< of what steps draw, by the meter
  double unseen_to = 1;  ///< up to that share of full speed
  job_pace_policy policy;
  int64_t now = 0;
  double used_j = 0, last_j = 0;
  uint64_t step = 0;
  work_pace pace{0};
  double left_s = 0;  ///< of the step, at full speed
  bool rests = false;
  std::deque<double> drawn;  ///< of each tick, newest last
  std::vector<int> paces;    ///< that steps had, of 1024

  double drawn_w() const { return idle_w + (step > 0 && !rests ? work_w * pace.share() : 0); }
  double seen_w() const {
    return pace.share() > unseen_to ? drawn_w() : std::max(idle_w - 2, drawn_w() - unseen_w);
  }
  void begin_step() {
    const auto v = policy.decide(now);
    if (v.holds) {
      if (step > 0) policy.steps(0, v.pace, now);
      step = 0;
      return;
    }
    if (v.pace != pace) paces.push_back(v.pace.of_1024);
    pace = v.pace;
    left_s = step_s;
    policy.steps(++step, pace, now);
  }
  void tick() {
    if (!rests && (step == 0 || left_s <= 0)) begin_step();
    const double s = static_cast<double>(ramp_tick_ns) / 1e9;
    if (!rests) left_s -= s * pace.share();
    used_j += seen_w() * s;
    drawn.push_back(drawn_w());
    now += ramp_tick_ns;
    if (now % ramp_second_ns != 0) return;
    power_reading said{used_j - last_j, used_j, true, now, ramp_second_ns, limit_w};
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
  policy.hear("node0", "", {}, 11 * ramp_second_ns);
  const auto v = policy.decide(11 * ramp_second_ns);
  CHECK(v.holds);
  CHECK(v.why.find("a ramp of 30 W a second") != std::string::npos);
}

TEST_CASE("JPP-10: without a limit no ramp jumps from steps that draw no more than none do") {
  for (const double unseen_w : {60.0, 130.0, 1000.0}) {
    CAPTURE(unseen_w);
    ramped_job j;
    j.limit_w = -1;
    j.step_s = 0.1;
    j.unseen_w = unseen_w;
    j.policy.set_ramp(30);
    j.pass(4);
    CHECK(!j.policy.decide(j.now).ramp_ns);  // nobody knows yet
    j.pass(296);
    CHECK(j.pace == work_pace{});
    CHECK(j.paces[0] == work_pace_policy::least_pace.of_1024);
    for (size_t i = 1; i < j.paces.size() && j.paces[i - 1] < work_pace::whole / 4; ++i)
      CHECK(j.paces[i] <= 2 * j.paces[i - 1]);
  }
}

TEST_CASE("JPP-10: without a limit what slow steps draw is not taken for what fast ones do") {
  ramped_job j;
  j.limit_w = -1;
  j.step_s = 0.1;
  j.unseen_w = 30;  // of 45
  j.unseen_to = 0.06;
  j.policy.set_ramp(30);
  j.pass(300);
  CHECK(j.pace == work_pace{});
  const double from_w = j.idle_w + j.work_w * 0.11;  // what a judgement at 5 % bounds
  for (size_t to = 30; to < j.drawn.size(); ++to)
    if (j.drawn[to - 30] > from_w) REQUIRE(j.drawn[to] - j.drawn[to - 30] <= 30 * 4 + 1);
}

TEST_CASE("JPP-10: a limit counts until steps at a quarter of full speed were judged") {
  ramped_job j;
  j.step_s = 0.1;
  j.unseen_w = 30;  // of 45 at the least pace, where a stair is long
  j.unseen_to = 0.06;
  j.policy.set_budget(120);  // the least pace alone, until it is judged there
  j.policy.set_ramp(30);
  j.pass(60);
  REQUIRE(j.pace.share() < 0.06);
  j.policy.set_budget(0);
  for (int i = 0; i < 600; ++i) {
    const auto from = j.drawn.size() - 30;
    j.tick();
    REQUIRE(j.drawn.back() - j.drawn[from] <= 30 * 4 + 1);
  }
  CHECK(j.pace == work_pace{});
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
