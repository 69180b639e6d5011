// A job's draw as it is told, where a device takes its pace and does not slow: with each pace that
// is slower, and where paces come and go before any was judged.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/job_pace_policy.hpp"
#include "actors/power/pace_follow_policy.hpp"

using namespace troupe::power;

namespace {

constexpr int64_t follow_ms = 1'000'000, follow_s = 1'000 * follow_ms;

/// 10 W without work and 190 at full speed, read each second; steps that take so long at full
/// speed. A device that sticks draws what it drew at its last pace, whatever the next one is.
struct sticking_work {
  job_pace_policy policy;
  int64_t step_ns;
  int64_t now = 0, left_ns = 0;
  double used_j = 0, second_j = 0;
  uint64_t step = 0;
  work_pace pace;
  double stuck_w = 0;
  std::vector<double> told;  ///< each second

  sticking_work(double budget_w, int64_t step_takes_ns) : step_ns(step_takes_ns) {
    policy.set_budget(budget_w);
    policy.hear("a", "boot", {10, 0, false, 0, follow_s, -1}, 0);
  }
  double draws() const { return std::max(stuck_w, 10 + 190 * pace.share()); }
  void pass(int seconds) {
    constexpr int64_t tick_ns = 50 * follow_ms;
    for (const auto end = now + seconds * follow_s; now < end;) {
      if (left_ns <= 0) {
        pace = policy.decide(now).pace;
        policy.steps(++step, pace, now);
        left_ns = static_cast<int64_t>(static_cast<double>(step_ns) / pace.share());
      }
      second_j += draws() * static_cast<double>(tick_ns) / 1e9;
      left_ns -= tick_ns;
      now += tick_ns;
      if (now % follow_s == 0) read();
    }
  }
  void read() {
    used_j += second_j;
    policy.hear("a", "boot", {second_j, used_j, false, now, follow_s, -1}, now);
    second_j = 0;
    (void)policy.decide(now);
    told.push_back(policy.sum(now).mean_w);
  }
};

/// Looks each second, of what it draws from one to the next.
struct looks_each_second {
  pace_follow_policy policy;
  double used_j = 0;
  int64_t now = 0;

  looks_each_second() { policy.look(0, 0); }
  void draws(double watts, int seconds) {
    for (int i = 0; i < seconds; ++i) policy.look(used_j += watts, now += follow_s);
  }
  void halves() { policy.changes(0, 0.5, now); }
  void doubles() { policy.changes(0, 2, now); }
};

}  // namespace

TEST_CASE("PFL-1: of a fall as much is believed as was measured of the last one") {
  struct row {
    double draws_w, believed_w;  ///< of a fall from 100 W to 50, and of the next one from 100 to 50
  };
  for (const auto& [draws_w, believed_w] :
       std::vector<row>{{50, 50}, {40, 50}, {60, 50}, {75, 75}, {90, 90}, {100, 100}, {130, 100}}) {
    looks_each_second it;
    it.policy.measured(100);
    it.halves();
    CHECK(*it.policy.believed_w() == doctest::Approx(50));
    it.draws(draws_w, 2);
    it.policy.judge(3);  // it was not looked at for so long
    CHECK(*it.policy.believed_w() == doctest::Approx(50));
    it.draws(draws_w, 1);
    it.policy.judge(3);
    CHECK(it.policy.doubted_w().has_value() == (believed_w > 50));
    CHECK(*it.policy.believed_w() == doctest::Approx(draws_w));
    CHECK(it.policy.believed_w(100, 50) == doctest::Approx(believed_w));
    it.policy.measured(100);
    it.halves();
    CHECK(*it.policy.believed_w() == doctest::Approx(believed_w));
    it.draws(50, 3);  // this time it falls
    it.policy.judge(3);
    CHECK(!it.policy.doubted_w());
    CHECK(it.policy.believed_w(100, 50) == doctest::Approx(50));
  }
}

TEST_CASE("PFL-1: a fall that is small, or missed by what steps differ, accuses nobody") {
  looks_each_second it;
  it.policy.measured(100);
  it.policy.changes(0, 0.97, it.now);
  it.draws(100, 5);
  it.policy.judge(3);
  CHECK(!it.policy.doubted_w());
  it.policy.measured(100);
  it.policy.changes(0, 0.94, it.now);
  it.draws(96, 5);
  it.policy.judge(3);
  CHECK(!it.policy.doubted_w());
  CHECK(it.policy.believed_w(100, 50) == doctest::Approx(50));
}

TEST_CASE("PFL-2: paces that change each two seconds put nothing off") {
  looks_each_second it;
  it.policy.measured(100);
  for (int i = 0; i < 3; ++i) {
    it.halves();
    it.draws(100, 2);
    it.doubles();
    it.draws(100, 2);
    it.policy.measured(100);
  }
  it.halves();
  it.policy.judge(6);
  CHECK(it.policy.doubted_w().has_value());
  CHECK(*it.policy.believed_w() == doctest::Approx(100));
}

TEST_CASE("PFL-2: an interval in which the pace changed says nothing, nor what was long ago") {
  looks_each_second it;
  it.policy.measured(100);
  it.policy.changes(0, 0.5, it.now + 1);
  it.draws(100, 3);
  it.policy.judge(3);
  CHECK(!it.policy.doubted_w());
  it.draws(100, 1);
  it.policy.judge(3);
  CHECK(it.policy.doubted_w());

  looks_each_second other;
  other.policy.measured(100);
  other.halves();
  other.draws(60, 2);
  other.doubles();
  other.policy.measured(100);
  other.draws(100, 70);
  other.halves();
  other.draws(60, 2);
  other.policy.judge(3);
  CHECK(other.policy.believed_w(100, 50) == doctest::Approx(50));
}

TEST_CASE("PFL-3: a rise is no proof, and what is told behind one that is taken back is no more") {
  looks_each_second it;
  it.policy.measured(100);
  it.halves();
  it.draws(100, 3);
  it.policy.judge(3);
  CHECK(it.policy.doubted_w());
  for (int i = 0; i < 10; ++i) {
    it.doubles();
    CHECK(*it.policy.believed_w() == doctest::Approx(200));
    it.halves();
    CHECK(*it.policy.believed_w() == doctest::Approx(100));
    it.draws(100, 3);
    it.policy.judge(3);
    CHECK(it.policy.doubted_w());
    CHECK(it.policy.believed_w(100, 50) == doctest::Approx(100));
  }
  it.policy.clear();
  CHECK(!it.policy.believed_w());
}

TEST_CASE("PFL-4: who draws far more than before at its pace has to show that it follows") {
  for (const double draws_w : {100.0, 120.0, 130.0, 200.0}) {
    looks_each_second it;
    it.policy.measured(100);
    it.draws(draws_w, 3);
    it.policy.judge(3);
    CHECK(it.policy.doubted_w().has_value() == (draws_w > 125));
    CHECK(*it.policy.believed_w() == doctest::Approx(draws_w > 125 ? draws_w : 100));
    it.halves();
    CHECK(*it.policy.believed_w() == doctest::Approx(draws_w > 125 ? draws_w : 50));
    it.draws(draws_w / 2, 3);
    it.policy.judge(3);
    CHECK(!it.policy.doubted_w());
    CHECK(it.policy.believed_w(100, 50) == doctest::Approx(50));
  }
}

TEST_CASE("JPP-11: who does not follow its pace is excused once, not with each that is slower") {
  for (const int64_t step_ns : {200 * follow_ms, 700 * follow_ms, 2 * follow_s}) {
    sticking_work job(150, step_ns);
    job.pass(120);
    const double before_w = job.draws();
    CHECK(before_w == doctest::Approx(150).epsilon(0.05));
    job.stuck_w = before_w;
    job.told.clear();
    job.policy.set_budget(90);
    const auto stretched_s = static_cast<double>(step_ns) / 1e9 / 0.4;
    job.pass(40);
    // Until the step at the pace before ends, and one at the next one and the least window do.
    const auto known_at = static_cast<size_t>(2 * stretched_s + 6);
    for (size_t i = known_at; i < job.told.size(); ++i)
      CHECK(job.told[i] == doctest::Approx(before_w).epsilon(0.02));
  }
}

TEST_CASE("JPP-11: budgets that come and go each three seconds excuse nobody") {
  sticking_work job(150, 700 * follow_ms);
  job.pass(120);
  job.stuck_w = job.draws();
  for (int i = 0; i < 4; ++i) {
    job.policy.set_budget(90);
    job.pass(3);
    job.policy.set_budget(150);
    job.pass(3);
  }
  job.told.clear();
  job.policy.set_budget(90);
  job.pass(3);
  for (const double w : job.told) CHECK(w >= 0.98 * job.stuck_w);
}

TEST_CASE(
    "JPP-11: a device that draws all it can, whatever its pace is, is told within a step and 7 s") {
  for (const int64_t step_ns : {200 * follow_ms, 700 * follow_ms}) {
    for (const int before_s : {100, 103, 107, 111, 119, 127}) {
      sticking_work job(80, step_ns);
      job.pass(before_s);
      CHECK(job.draws() < 80);
      job.stuck_w = 200;
      job.told.clear();
      job.pass(40);
      const auto a_step = static_cast<size_t>(static_cast<double>(step_ns) / 1e9 / 0.35);
      for (size_t i = a_step + 7; i < job.told.size(); ++i) CHECK(job.told[i] >= 0.9 * job.stuck_w);
    }
  }
}

TEST_CASE("JPP-11: who follows its pace is told at once as what that promises, each time") {
  sticking_work job(150, 700 * follow_ms);
  job.pass(120);
  for (const double budget_w : {120, 100, 140, 80, 60, 150, 50}) {
    job.policy.set_budget(budget_w);
    job.pass(3);
    job.told.clear();
    job.pass(17);
    for (const double w : job.told) CHECK(w <= budget_w);
  }
}
