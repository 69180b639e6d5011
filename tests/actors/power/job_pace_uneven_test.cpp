// A job's pace where steps stand, are long or short: what one that stood drew says nothing of the
// next.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "actors/power/job_pace_policy.hpp"

using namespace troupe::power;

namespace {

constexpr int64_t ms_ns = 1'000'000, s_ns = 1'000 * ms_ns;

/// 10 W without work and 190 at full speed, read each second; seconds of work and without, in turn.
struct uneven_work {
  job_pace_policy policy;
  int64_t now = 0;
  double used_j = 0, most_w = 0;
  uint64_t step = 0;

  explicit uneven_work(double budget_w) {
    policy.set_budget(budget_w);
    second(10);
  }
  work_pace second(double w) {
    most_w = std::max(most_w, w);
    used_j += w;
    now += s_ns;
    policy.hear("a", "boot", {w, used_j, false, now, s_ns, -1}, now);
    return policy.decide(now).pace;
  }
  /// Its pace.
  work_pace make(int works_s, int stands_s) {
    const auto pace = policy.decide(now).pace;
    policy.steps(++step, pace, now);
    for (int i = 0; i < works_s; ++i) second(10 + 190 * pace.share());
    for (int i = 0; i < stands_s; ++i) second(10);
    return pace;
  }
};

}  // namespace

TEST_CASE("JPP-2: a step that stands raises no pace, while it does and by its end") {
  for (const int stands_s : {4, 12, 25, 100}) {
    uneven_work job(50);
    for (int i = 0; i < 60; ++i) job.make(2, 0);
    CHECK(job.most_w < 50);
    const auto before = job.make(2, stands_s);
    CHECK(job.policy.decide(job.now).pace == before);
    for (int i = 0; i < 8; ++i) CHECK(job.make(20, 0).of_1024 <= before.of_1024);
    CHECK(job.most_w < 50);
  }
}

TEST_CASE("JPP-2: steps of which each other one stands keep a budget in the mean, and use it") {
  uneven_work job(50);
  for (int i = 0; i < 100; ++i) job.make(2, i % 2 == 0 ? 6 : 0);
  const auto begun_j = job.used_j;
  const auto begun = job.now;
  for (int i = 0; i < 40; ++i) job.make(2, i % 2 == 0 ? 6 : 0);
  const double mean_w = (job.used_j - begun_j) / (static_cast<double>(job.now - begun) / s_ns);
  CHECK(mean_w > 30);
  CHECK(mean_w <= 50);
}

TEST_CASE("JPP-2: short steps of which each tenth stands rise, and fall when they draw more") {
  job_pace_policy policy;
  policy.set_budget(50);
  constexpr int64_t tenth = 100 * ms_ns;
  int64_t now = 0, read = 0;
  double used_j = 0, work_w = 190;
  uint64_t step = 0;
  const auto pass = [&](double w) {
    used_j += w / 10;
    now += tenth;
    if (now - read < s_ns) return;
    policy.hear("a", "boot", {w, used_j, false, now, s_ns, -1}, now);
    policy.decide(now);
    read = now;
  };
  const auto mean_w = [&](int steps) {
    const double before_j = used_j;
    const int64_t begun = now;
    for (int i = 0; i < steps; ++i) {
      const auto pace = policy.decide(now).pace;
      policy.steps(++step, pace, now);
      pass(10 + work_w * pace.share());
      for (int stands = 0; i % 10 == 9 && stands < 2; ++stands) pass(10);
    }
    return (used_j - before_j) / (static_cast<double>(now - begun) / s_ns);
  };
  for (int i = 0; i < 10; ++i) pass(10);
  mean_w(1000);
  CHECK(mean_w(1000) > 35);
  work_w *= 2;
  mean_w(100);
  CHECK(mean_w(1000) < 50);
}

TEST_CASE("JPP-2: a step that is long, and works, slows no other") {
  uneven_work job(50);
  for (int i = 0; i < 60; ++i) job.make(2, 0);
  const auto before = job.make(2, 0);
  for (int i = 0; i < 40; ++i)
    CHECK(job.make(i % 5 == 0 ? 12 : 2, 0).share() >= 0.95 * before.share());
  CHECK(job.most_w < 50);
}

TEST_CASE("JPP-2: by a clock a step that is longer for its pace has not stood") {
  uneven_work job(110);
  job.policy.slows_by_root(true);
  const auto make = [&](int steps, double work_w) {
    for (int i = 0; i < steps; ++i) {
      const auto pace = job.policy.decide(job.now).pace;
      job.policy.steps(++job.step, pace, job.now);
      const auto takes_s = static_cast<int>(std::lround(6 / std::sqrt(pace.share())));
      for (int at = 0; at < takes_s; ++at) job.second(10 + work_w * pace.share());
    }
    return job.policy.decide(job.now).pace.share();
  };
  make(12, 1900);
  make(4, 380);
  CHECK(make(2, 120) > 0.8);  // at twice the clock steps are half as long, and say what they draw
}

TEST_CASE("JPP-2: a step that began just before the brake is the one that rests") {
  uneven_work job(50);
  for (int i = 0; i < 60; ++i) job.make(2, 0);
  const auto pace = job.policy.decide(job.now).pace;
  job.policy.rest(true, job.now);
  job.policy.steps(++job.step, pace, job.now);  // told behind it
  for (int i = 0; i < 5; ++i) job.second(10);
  job.policy.rest(false, job.now);
  job.policy.steps(job.step, pace, job.now);
  CHECK(job.policy.sum(job.now).mean_w == doctest::Approx(50 * job_pace_policy::aim).epsilon(0.03));
  job.policy.rest(true, job.now);
  job.policy.steps(++job.step, work_pace{pace.of_1024 / 2}, job.now);
  job.policy.rest(false, job.now);
  const double half_w = 10 + (50 * job_pace_policy::aim - 10) / 2;
  CHECK(job.policy.sum(job.now).mean_w == doctest::Approx(half_w).epsilon(0.03));
}

TEST_CASE("JPP-2: a step whose first operations are held back raises no pace") {
  for (int before = 60; before < 80; ++before) {
    CAPTURE(before);
    uneven_work job(50);
    for (int i = 0; i < before; ++i) job.make(2, 0);
    const auto pace = job.policy.decide(job.now).pace;
    job.policy.steps(++job.step, pace, job.now);
    job.policy.begins_late();
    for (int i = 0; i < 2; ++i) job.second(10);
    for (int i = 0; i < 2; ++i) job.second(10 + 190 * pace.share());
    for (int i = 0; i < 20; ++i) job.make(2, 0);
    CHECK(job.most_w < 50);
    CHECK(job.policy.decide(job.now).pace >= work_pace{pace.of_1024 * 9 / 10});
  }
}

TEST_CASE("JPP-2: nor does one that is braked before its first operations") {
  uneven_work job(50);
  for (int i = 0; i < 60; ++i) job.make(2, 0);
  const auto pace = job.policy.decide(job.now).pace;
  job.policy.rest(true, job.now);
  job.policy.steps(++job.step, pace, job.now);  // told behind it
  job.policy.begins_late();
  job.second(10);
  job.policy.rest(false, job.now);
  for (int i = 0; i < 4; ++i) job.second(10);
  for (int i = 0; i < 2; ++i) job.second(10 + 190 * pace.share());
  for (int i = 0; i < 20; ++i) job.make(2, 0);
  CHECK(job.most_w < 50);
}
