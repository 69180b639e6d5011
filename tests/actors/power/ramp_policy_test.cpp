// How fast watts may rise: against a job that takes its pace where steps begin.
#include "actors/power/ramp_policy.hpp"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t ramp_ms = 1'000'000, ramp_s = 1'000 * ramp_ms;

/// What is drawn above idle, from a moment on.
struct risen {
  int64_t at_ns;
  double w;
};

double stair_of(double work_w, double slope_w_s) {
  const double least_w = work_w * work_pace_policy::least_pace.share();
  return std::max({slope_w_s, work_w / work_pace::whole, least_w}) * 1.0001;
}

}  // namespace

TEST_CASE("RMP-1: no schedule of paces makes watts rise faster than the slope") {
  sim::rng random(11);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const double work_w = 20 + 8000 * random.unit();
    const double slope_w_s = work_w * (0.001 + 0.3 * random.unit());
    ramp_policy ramp;
    ramp.set_slope(slope_w_s);
    std::vector<risen> seen{{0, 0}};
    work_pace pace{0};
    int64_t now = 0;
    for (int step = 0; step < 200; ++step) {
      now += static_cast<int64_t>(1 + random.below(4000)) * ramp_ms;
      const work_pace wanted{static_cast<int>(52 + random.below(973))};
      const auto next = random.chance(0.05) ? work_pace{0} : ramp.next(wanted, work_w, now);
      CHECK((next.of_1024 == 0 || next <= wanted));  // RMP-2
      ramp.steps(next, work_w, now);
      pace = next;
      seen.push_back({now, work_w * pace.share()});
    }
    const double stair_w = stair_of(work_w, slope_w_s);
    for (size_t from = 0; from < seen.size(); ++from)
      for (size_t to = from + 1; to < std::min(seen.size(), from + 60); ++to) {
        const double s = static_cast<double>(seen[to].at_ns - seen[from].at_ns) / 1e9;
        REQUIRE(seen[to].w - seen[from].w <= slope_w_s * s + stair_w);
      }
  }
}

TEST_CASE("RMP-1: what is steep enough to wait for is reached when it is said to be") {
  ramp_policy ramp;
  ramp.set_slope(50);
  const double work_w = 1000;
  int64_t now = 100 * ramp_s;
  ramp.steps(work_pace{0}, work_w, now);
  now += 10 * ramp_s;
  const auto there = ramp.reaches_ns(work_pace{}, work_w, now);
  REQUIRE(there);
  CHECK(*there - now == doctest::Approx(19e9).epsilon(0.01));  // a second of it is there at once
  int64_t reached = 0;
  for (; reached == 0; now += 100 * ramp_ms) {
    const auto next = ramp.next(work_pace{}, work_w, now);
    ramp.steps(next, work_w, now);
    if (next == work_pace{}) reached = now;
  }
  CHECK(reached - *there < ramp_s);
  CHECK(reached >= *there - ramp_s);
}

TEST_CASE("RMP-3: a fall is at once, and what comes after it rises from there") {
  ramp_policy ramp;
  ramp.set_slope(10);
  ramp.steps(work_pace{1024}, 100, 0);
  CHECK(ramp.next(work_pace{512}, 100, 60 * ramp_s) == work_pace{512});
  ramp.steps(work_pace{512}, 100, 60 * ramp_s);
  CHECK(ramp.next(work_pace{}, 100, 60 * ramp_s) == work_pace{512});
  CHECK(ramp.next(work_pace{}, 100, 61 * ramp_s).of_1024 == 512 + 102);
  CHECK(ramp.next(work_pace{}, 100, 3600 * ramp_s).of_1024 == 512 + 102);  // of a second, no more
}

TEST_CASE("RMP-4: while nothing says what work draws the pace is the least one") {
  ramp_policy ramp;
  ramp.set_slope(10);
  CHECK(ramp.next(work_pace{}, std::nullopt, ramp_s) == work_pace_policy::least_pace);
  ramp.steps(work_pace{300}, std::nullopt, ramp_s);
  CHECK(ramp.next(work_pace{}, std::nullopt, 9 * ramp_s) == work_pace{300});
  CHECK(!ramp.reaches_ns(work_pace{}, std::nullopt, 9 * ramp_s));
  ramp.set_slope(0);
  CHECK(ramp.next(work_pace{}, std::nullopt, 9 * ramp_s) == work_pace{});
}

TEST_CASE("RMP-1: a slope that earns no 1024th in a second still rises") {
  ramp_policy ramp;
  ramp.set_slope(0.1);
  ramp.steps(work_pace{100}, 1024, 0);
  ramp.steps(work_pace{100}, 1024, 0);
  int64_t now = 0;
  work_pace pace{100};
  for (; now < 3600 * ramp_s; now += ramp_s) {
    pace = ramp.next(work_pace{}, 1024, now);
    ramp.steps(pace, 1024, now);
  }
  // What it began with was a stair of 100 W, which takes 1000 s at that slope.
  CHECK(pace.of_1024 >= 100 + 250);
  CHECK(pace.of_1024 <= 100 + 261);
}
