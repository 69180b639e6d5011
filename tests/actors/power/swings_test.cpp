// Swings: traces whose falls, dips and frequencies are known.
#include "actors/power/swings.hpp"

#include <cmath>
#include <numbers>

#include <doctest/doctest.h>

#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr double step_s = 0.1;

std::vector<double> level(double seconds, double watts, std::vector<double> before = {}) {
  before.insert(before.end(), static_cast<size_t>(std::llround(seconds / step_s)), watts);
  return before;
}

/// A job at 4400 of 5600 W that saves for six seconds at 1200 W, three times.
std::vector<double> saving() {
  auto out = level(40, 4400);
  for (int i = 0; i < 3; ++i) out = level(40, 4400, level(6, 1200, std::move(out)));
  return out;
}

std::vector<double> sine(double hz, double seconds, double step) {
  std::vector<double> out;
  for (double t = 0; t < seconds; t += step)
    out.push_back(3000 + 500 * std::sin(2 * std::numbers::pi * hz * t));
  return out;
}

swing_rules rules() {
  swing_rules r;
  r.tdp_w = 5600;
  return r;
}

remedied treat(remedy how, const std::vector<double>& x, const swing_rules& r) {
  return apply(how, x, step_s, r);
}

}  // namespace

TEST_CASE("swings: a fall is the greatest within two seconds, and not within more") {
  std::vector<double> slow = level(5, 4000);
  for (int i = 0; i < 100; ++i) slow.push_back(slow.back() - 10);  // 100 W a second
  const auto s = swings_of(slow, step_s, 560);
  CHECK(*s.fall_w == doctest::Approx(200));
  CHECK(*s.rise_w == 0);
  CHECK(s.ramp_w_per_s == doctest::Approx(100));
  CHECK(s.least_w == doctest::Approx(3000));
  CHECK(s.most_w == 4000);
  CHECK(*swings_of(slow, 0.100001, 560).fall_w == doctest::Approx(200));
  const auto all = swings_of(saving(), step_s, 560);
  CHECK(*all.fall_w == doctest::Approx(3200));
  CHECK(*all.rise_w == doctest::Approx(3200));
  CHECK(all.ramp_w_per_s == doctest::Approx(32'000));
  CHECK(all.beyond == 6);  // three down, three up
  CHECK(swings_of(saving(), step_s, 3200).beyond == 0);
}

TEST_CASE("SWG-1: what samples cannot show is not said") {
  CHECK(swings_of(saving(), 1.0, 560).fall_w);
  CHECK(swings_of(saving(), 1.0003, 560).fall_w);  // a second, by a clock
  CHECK_FALSE(swings_of(saving(), 1.5, 560).fall_w);
  CHECK_FALSE(swings_of(saving(), 6.0, 560).band);  // half of its rate is below 0.1 Hz
  CHECK(swings_of(saving(), 4.0, 560).band);
  CHECK_FALSE(share_of_band(sine(1, 20, 0.1), 0.1, 0.1, 20));  // two periods of 0.1 Hz
  const auto coarse = share_of_band(sine(0.5, 400, 0.25), 0.25, 0.1, 20);
  REQUIRE(coarse);
  CHECK(coarse->seen_hz == doctest::Approx(2));
  CHECK(share_of_band(sine(0.5, 400, 0.01), 0.01, 0.1, 20)->seen_hz == doctest::Approx(20));
  auto r = rules();
  const auto plan = plan_swings(saving(), 1.5, r);
  CHECK_FALSE(plan.kept);
  CHECK(plan.wanted.empty());
}

TEST_CASE("swings: variance is found at its frequency") {
  for (const double hz : {0.2, 1.0, 4.5}) {
    CAPTURE(hz);
    CHECK(share_of_band(sine(hz, 600, 0.1), 0.1, 0.1, 20)->share > 0.99);
  }
  CHECK(share_of_band(sine(0.02, 600, 0.1), 0.1, 0.1, 20)->share < 0.01);
  // Halves of the variance on both sides.
  auto both = sine(0.02, 600, 0.1);
  const auto fast = sine(1, 600, 0.1);
  for (size_t i = 0; i < both.size(); ++i) both[i] += fast[i];
  CHECK(share_of_band(both, 0.1, 0.1, 20)->share == doctest::Approx(0.5).epsilon(0.02));
  CHECK(share_of_band(std::vector<double>(4096, 700.0), 0.1, 0.1, 20)->share == 0);
}

TEST_CASE("swings: variance is found wherever it is in the trace, and by quick meters") {
  for (const size_t from : {0, 500, 1050}) {
    std::vector<double> x(1500, 3000.0);
    for (size_t i = from; i < from + 450; ++i)
      x[i] += 500 * std::sin(2 * std::numbers::pi * static_cast<double>(i) * 0.1);
    CAPTURE(from);
    CHECK(share_of_band(x, 0.1, 0.1, 20)->share > 0.9);
  }
  const auto quick = share_of_band(sine(1, 100, 0.0005), 0.0005, 0.1, 20);  // 2 kHz
  REQUIRE(quick);
  CHECK(quick->share > 0.99);
  CHECK(quick->seen_hz == 20);
}

TEST_CASE("swings: dips are found up to where the job works again, ends are told apart") {
  auto x = saving();
  const auto found = dips_of(x, step_s);
  REQUIRE(found.inner.size() == 3);
  CHECK(found.inner[0].from == 400);
  CHECK(found.inner[0].to == 460);
  CHECK(found.median_s == doctest::Approx(6));
  CHECK(found.time_share == doctest::Approx(18.0 / 178));
  CHECK(found.begin.empty());
  CHECK(found.end.empty());
  x[460] = 3000;  // on its way up: not yet work
  CHECK(dips_of(x, step_s).inner[0].to == 461);
  const auto whole = dips_of(level(10, 900, level(50, 4400, level(10, 900))), step_s);
  CHECK(whole.inner.empty());
  CHECK(whole.begin.to == 100);
  CHECK(whole.end.from == 600);
  CHECK(whole.end.to == 700);
  CHECK(dips_of(level(50, 4400), step_s).inner.empty());
}

TEST_CASE("swings: any trace has dips that end, each below what is work") {
  // Most of it a little above half of its highest: a sample may be idle and near to usual.
  auto near = level(60, 510);
  for (size_t i = 0; i < 80; ++i) near[i * 7] = 1000;
  near[3] = 480;
  CHECK(dips_of(near, step_s).inner.size() == 1);
  sim::rng random(3);
  for (int n = 0; n < 300; ++n) {
    std::vector<double> x(static_cast<size_t>(random.between(1, 200)));
    const int64_t most = random.between(0, 3);
    for (auto& w : x) w = static_cast<double>(random.between(0, most));
    size_t at = 0;
    for (const auto& d : dips_of(x, step_s).inner) {
      CHECK(d.from >= at);
      CHECK(d.to > d.from);
      CHECK(d.to <= x.size());
      at = d.to;
    }
  }
}

TEST_CASE("swings: asynchronous saves leave no dip, and the time they took") {
  const auto x = saving();
  const auto done = treat(remedy::asynchronous, x, rules());
  CHECK(*done.now.fall_w == 0);
  CHECK(done.watts.size() == x.size() - 180);
  CHECK(done.slower == doctest::Approx(-18.0 / 178));
  CHECK(done.more_energy < 0);
  const auto plan = plan_swings(x, step_s, rules());
  CHECK(plan.kept);
  REQUIRE(plan.wanted.size() == 1);
  CHECK(plan.wanted[0] == remedy::asynchronous);
  CHECK(*plan.before.fall_w / 5600 > 0.5);  // as measured of synchronous saves
  CHECK(*plan.together.now.fall_w <= 0.10 * 5600);
}

TEST_CASE("SWG-2: ramps are below the trace, filler above it, and their slopes are bounded") {
  sim::rng random(7);
  auto r = rules();
  for (int n = 0; n < 200; ++n) {
    std::vector<double> x;
    double w = 900;
    for (int i = 0; i < 600; ++i) {
      if (random.chance(0.03)) w = static_cast<double>(random.between(600, 5600));
      x.push_back(w + static_cast<double>(random.between(0, 100)));
    }
    const double bound = r.ramp_per_s * r.tdp_w * step_s * (1 + 1e-9);
    const auto ramped = treat(remedy::ramped, x, r).watts;
    const auto filled = treat(remedy::filler, x, r);
    REQUIRE(ramped.size() == x.size());
    REQUIRE(filled.watts.size() == x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      CHECK(ramped[i] <= x[i]);
      CHECK(filled.watts[i] >= std::max(x[i], r.floor * r.tdp_w));
    }
    for (size_t i = 1; i < x.size(); ++i) {
      CHECK(std::abs(ramped[i] - ramped[i - 1]) <= std::max(bound, std::abs(x[i] - x[i - 1])));
      CHECK(filled.watts[i - 1] - filled.watts[i] <= bound);
    }
    CHECK(filled.more_energy >= 0);
    CHECK(filled.slower == 0);
  }
}

TEST_CASE(
    "swings: a ramp bounds starts, resumes and stops, and costs the work that it leaves out") {
  auto r = rules();
  r.ramp_per_s = 0.10;
  // Up by 3500 W at 560 a second: 6.25 s in which half of it is left out.
  const auto x = level(93.75, 4400, level(6.25, 900));
  const auto ramped = treat(remedy::ramped, x, r);
  CHECK(ramped.slower == doctest::Approx(6.25 / 2 / 93.75).epsilon(0.05));
  CHECK(ramped.more_energy > 0);
  CHECK(ramped.more_energy < ramped.slower);
  for (const auto& trace : {x, saving(), level(10, 900, saving())}) {
    const auto now = treat(remedy::ramped, trace, r).now;
    CHECK(*now.fall_w <= 2 * 560 * (1 + 1e-9));
    CHECK(*now.rise_w <= 2 * 560 * (1 + 1e-9));
  }
}

TEST_CASE("swings: what a job does while it works is nobody's to ramp") {
  auto x = saving();
  for (size_t i = 0; i < x.size(); ++i) x[i] += i % 7 < 3 ? 200 : -200;
  const auto still = level(60, 4400);
  CHECK(treat(remedy::ramped, still, rules()).slower == 0);
  auto noisy = level(120, 4400);
  for (size_t i = 0; i < noisy.size(); ++i) noisy[i] += i % 7 < 3 ? 200 : -200;
  CHECK(treat(remedy::ramped, noisy, rules()).watts == noisy);
  CHECK(treat(remedy::ramped, x, rules()).slower < 0.3);
}

TEST_CASE(
    "swings: dips that can be had for nothing are taken first, also where a stop falls deeper") {
  // The end falls by more than the saves do.
  const auto x = level(15, 600, saving());
  const auto plan = plan_swings(x, step_s, rules());
  CHECK(plan.before.beyond == 7);
  CHECK(plan.kept);
  REQUIRE(plan.wanted.size() == 2);
  CHECK(plan.wanted[0] == remedy::asynchronous);
  CHECK(plan.wanted[1] == remedy::ramped);
  CHECK(plan.together.slower < 0);  // the saves took longer than the ramp does
  CHECK(plan.together.now.beyond == 0);
}

TEST_CASE("swings: jobs apart fall by their part each") {
  auto r = rules();
  const auto x = saving();
  r.jobs = 2;
  CHECK(*treat(remedy::phase, x, r).now.fall_w == doctest::Approx(1600));
  r.jobs = 4;
  CHECK(*treat(remedy::phase, x, r).now.fall_w == doctest::Approx(800));
  CHECK(treat(remedy::phase, level(60, 4400), r).now.fall_w == 0.0);
}

TEST_CASE("SWG-3: filler is taken last, and within its ceiling") {
  auto r = rules();
  // A job that swings by 1400 W as it works, at times that no shift sets apart, and has no dips.
  sim::rng random(5);
  std::vector<double> x;
  for (int i = 0; i < 60; ++i)
    x = level(static_cast<double>(random.between(20, 60)) / 10, 3000,
              level(static_cast<double>(random.between(20, 60)) / 10, 4400, std::move(x)));
  r.most_filler_cost = 0.5;
  const auto dear = treat(remedy::filler, x, r).more_energy;
  REQUIRE(dear > 0.05);
  auto plan = plan_swings(x, step_s, r);
  REQUIRE_FALSE(plan.wanted.empty());
  CHECK(plan.wanted.back() == remedy::filler);
  CHECK(plan.kept);
  for (size_t i = 1; i < plan.wanted.size(); ++i) CHECK(plan.wanted[i - 1] < plan.wanted[i]);
  r.most_filler_cost = 0.01;
  plan = plan_swings(x, step_s, r);
  for (const auto how : plan.wanted) CHECK(how != remedy::filler);
  CHECK_FALSE(plan.kept);
}

TEST_CASE("swings: a start that rises is ramped, though nothing falls") {
  const auto x = level(600, 4400, level(60, 900));
  const auto plan = plan_swings(x, step_s, rules());
  CHECK(*plan.before.fall_w == 0);
  CHECK(plan.kept);
  REQUIRE(plan.wanted.size() == 1);
  CHECK(plan.wanted[0] == remedy::ramped);
  CHECK(*plan.together.now.rise_w == doctest::Approx(448));
}

TEST_CASE("swings: the slope that is allowed keeps what is wanted, whatever is rounded") {
  auto r = rules();
  r.ramp_per_s = r.most_swing / swing_rules::window_s;
  for (double tdp = 3000; tdp < 9000; tdp += 37)
    for (const double step : {0.05, 0.1, 0.2, 0.7, 1.0}) {
      r.tdp_w = tdp;
      std::vector<double> x(static_cast<size_t>(30 / step), 300.0);
      x.insert(x.end(), static_cast<size_t>(120 / step), 0.8 * tdp);
      x.insert(x.end(), static_cast<size_t>(30 / step), 300.0);
      const auto plan = plan_swings(x, step, r);
      CAPTURE(tdp);
      CAPTURE(step);
      CHECK(plan.kept);
      CHECK(plan.wanted == std::vector{remedy::ramped});
    }
}

TEST_CASE("swings: what a ramp costs is held against the idle machine, however rarely it idles") {
  auto x = level(3000, 4400);
  for (size_t i = 0; i < x.size(); ++i) x[i] += static_cast<double>(i % 200);
  for (size_t i = 10'000; i < 10'060; ++i) x[i] = 1200;
  CHECK(idle_level_of(x, step_s) == doctest::Approx(1200));
  const auto done = treat(remedy::ramped, x, rules());
  CHECK(done.slower > 0.001);
  CHECK(done.slower < 0.01);  // two ramps of 11 s in 50 minutes

  const auto plan = plan_swings(level(10, 900, std::move(x)), step_s, rules());
  CHECK(plan.wanted == std::vector{remedy::asynchronous, remedy::ramped});
  CHECK(plan.together.slower < 0.01);
}

TEST_CASE("swings: an hour of waiting is no save, and stays") {
  const auto x = level(1800, 4400, level(3600, 900, level(1800, 4400)));
  auto r = rules();
  CHECK(treat(remedy::asynchronous, x, r).watts == x);
  CHECK(plan_swings(x, step_s, r).wanted == std::vector{remedy::ramped});
  r.longest_save_s = 3600;
  CHECK(treat(remedy::asynchronous, x, r).slower == doctest::Approx(-0.5));
}

TEST_CASE("swings: an idle machine's own noise is nobody's to ramp") {
  auto x = saving();
  for (size_t i = 400; i < 460; ++i) x[i] = i % 2 == 0 ? 1200 : 1800;
  const auto ramped = treat(remedy::ramped, x, rules()).watts;
  for (size_t i = 400; i < 460; ++i) CHECK(ramped[i] == x[i]);
}

TEST_CASE("swings: filler's cost of a distribution is its mean with a floor") {
  // Half of the time at 1000, half at 3000 W.
  const std::vector<std::pair<double, double>> two = {
      {0, 1000}, {0.5, 1000}, {0.5, 3000}, {1, 3000}};
  CHECK(filler_cost(two, 2000, 2000) == doctest::Approx(0.25));
  CHECK(filler_cost(two, 2000, 500) == doctest::Approx(0));
  CHECK(filler_cost(two, 2000, 4000) == doctest::Approx(1));
  CHECK(filler_cost(two, 2100, 500) == 0);  // what quantiles leave out is no gain
  // Evenly from 0 to 2000 W: above a floor of 1000 the half, whose mean is 1500.
  const std::vector<std::pair<double, double>> even = {{0, 0}, {1, 2000}};
  CHECK(filler_cost(even, 1000, 1000) == doctest::Approx(0.25));
  // The same by the trace itself.
  auto r = rules();
  r.ramp_per_s = 1;
  const auto x = saving();
  const std::vector<std::pair<double, double>> quantiles = {
      {0, 1200}, {18.0 / 178, 1200}, {18.0 / 178, 4400}, {1, 4400}};
  const double mean = (18 * 1200 + 160 * 4400) / 178.0;
  CHECK(filler_cost(quantiles, mean, r.floor * r.tdp_w) ==
        doctest::Approx(treat(remedy::filler, x, r).more_energy).epsilon(1e-6));
}

TEST_CASE("swings: rules without a meaning are refused") {
  CHECK(check(rules()));
  for (auto wrong : {&swing_rules::tdp_w, &swing_rules::most_swing, &swing_rules::ramp_per_s,
                     &swing_rules::floor, &swing_rules::longest_save_s}) {
    auto r = rules();
    r.*wrong = 0;
    CHECK(check(r).error().code == errc::usage);
    r.*wrong = std::nan("");
    CHECK(check(r).error().code == errc::usage);
  }
  auto r = rules();
  r.most_swing = 10;  // in percent
  CHECK_FALSE(check(r));
  r = rules();
  r.most_filler_cost = -1;
  CHECK_FALSE(check(r));
  r = rules();
  r.jobs = 1;
  CHECK_FALSE(check(r));
  r.jobs = 65;
  CHECK_FALSE(check(r));
}
