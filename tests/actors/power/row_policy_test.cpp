// The row's policy, by tables: what each rule commands at which power, and when.
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/largest_rise.hpp"
#include "actors/power/row_policy.hpp"
#include "actors/power/safe_threshold_policy.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t second = 1'000'000'000;

/// A policy and its state, ticked every 2 s.
struct ticker {
  row_policy policy;
  row_state state;
  int64_t now_ns = 0;
  double at_caps = 1.3;

  explicit ticker(row_rule rule, row_thresholds t = {}, int64_t actuation_s = 40)
      : policy(rules_of(rule, t, actuation_s * second, 2 * second)) {}

  bool unruly = false;

  row_commands tick(std::optional<double> power) {
    now_ns += 2 * second;
    const auto d = policy.decide(state, {power, at_caps, unruly}, now_ns);
    state = d.state;
    return d.commands;
  }
  /// The same power for so many ticks; what was commanded last, if anything was.
  row_commands ticks(int n, std::optional<double> power) {
    row_commands last;
    for (int i = 0; i < n; ++i) {
      const auto c = tick(power);
      if (c.lp_mhz || c.hp_mhz || c.brake) last = c;
    }
    return last;
  }
  int lp() const { return policy.rules().lp_mhz(state.level); }
  int hp() const { return policy.rules().hp_mhz(state.level); }
};

struct row {
  double power;
  int ticks;
  int lp_mhz, hp_mhz;
};

void walk(ticker& t, std::initializer_list<row> rows) {
  size_t i = 0;
  for (const auto& r : rows) {
    CAPTURE(i++);
    CAPTURE(r.power);
    t.ticks(r.ticks, r.power);
    CHECK(t.lp() == r.lp_mhz);
    CHECK(t.hp() == r.hp_mhz);
  }
}

}  // namespace

TEST_CASE(
    "row policy: POLCA takes low priority down at T1 and T2, then high, and back in reverse") {
  ticker t(row_rule::polca);
  walk(t, {{0.80, 1, 1410, 1410},    // not above T1
           {0.801, 1, 1275, 1410},   // at once
           {0.891, 1, 1110, 1410},   // at once, though a command is in flight
           {0.891, 20, 1110, 1410},  // 40 s later not settled: actuation and a tick are 42
           {0.891, 1, 1110, 1305},   // ROW-1
           {0.85, 30, 1110, 1305},   // within the hysteresis of T2
           {0.839, 1, 1110, 1410},   // one a tick, the last first
           {0.839, 20, 1110, 1410},  // ROW-2: settled
           {0.839, 1, 1275, 1410},
           {0.76, 30, 1275, 1410},
           {0.749, 1, 1410, 1410}});
}

TEST_CASE("row policy: POLCA goes to 1,110 MHz at once where power jumps over both thresholds") {
  ticker t(row_rule::polca);
  const auto c = t.tick(0.95);
  CHECK(c.lp_mhz == 1110);
  CHECK(!c.hp_mhz);
  CHECK(c.reason == row_reason::above);
}

TEST_CASE("row policy: what POLCA is compared with has one threshold, or none") {
  ticker none(row_rule::none), low(row_rule::low), all(row_rule::all);
  walk(none, {{0.99, 50, 1410, 1410}, {0.1, 50, 1410, 1410}});
  walk(low, {{0.88, 50, 1410, 1410},
             {0.90, 1, 1110, 1410},
             {0.83, 20, 1110, 1410},
             {0.83, 1, 1410, 1410}});
  walk(all, {{0.88, 50, 1410, 1410}, {0.90, 1, 1110, 1110}, {0.83, 21, 1410, 1410}});
}

TEST_CASE("row policy: the ladder takes a rung each actuation, and undoes one after ten seconds") {
  ticker t(row_rule::ladder, {0.85, 0.92, 0.95}, 2);
  walk(t, {{0.86, 1, 1275, 1410},
           {0.93, 1, 1110, 1410},
           {0.93, 1, 810, 1410},
           {0.93, 9, 810, 1410},  // high priority is T3's
           {0.96, 1, 810, 1305},
           {0.96, 1, 810, 1110},
           {0.89, 4, 810, 1110},
           {0.89, 1, 810, 1305},
           {0.89, 5, 810, 1410},
           {0.86, 5, 1110, 1410}});
}

TEST_CASE("ROW-4: an overload pulls the brake at once, which is held for 30 s and released") {
  ticker t(row_rule::polca, {}, 2);
  t.tick(0.85);
  const auto pulled = t.tick(1.01);
  CHECK(pulled.brake == true);
  CHECK(pulled.lp_mhz == 1110);
  CHECK(pulled.reason == row_reason::overload);
  CHECK(t.state.brake == row_brake::arming);
  CHECK(!t.tick(1.02).brake);  // counted once
  CHECK(!t.ticks(16, 0.4).brake);
  CHECK(t.state.brake == row_brake::on);
  CHECK(t.lp() == 1110);  // ROW-2: low power under the brake undoes nothing
  const auto released = t.tick(0.4);
  CHECK(released.brake == false);
  CHECK(released.reason == row_reason::held);
  CHECK(t.state.brake == row_brake::releasing);
  t.ticks(2, 0.4);
  CHECK(t.state.brake == row_brake::releasing);
  t.tick(0.4);
  CHECK(t.state.brake == row_brake::off);
  CHECK(t.tick(1.2).brake == true);
}

TEST_CASE(
    "ROW-3: readings that are missing undo nothing, and after three count as what caps allow") {
  ticker t(row_rule::polca);
  t.tick(0.82);
  t.ticks(30, 0.78);
  CHECK(t.lp() == 1275);
  CHECK(t.tick({}).reason == row_reason::no_reading);
  CHECK(t.tick(std::numeric_limits<double>::quiet_NaN()).reason == row_reason::no_reading);
  CHECK(t.lp() == 1275);
  CHECK(t.tick({}).lp_mhz == 1110);  // 1.3 of the budget could be drawn
  CHECK(t.state.brake == row_brake::off);
  t.ticks(21, {});
  CHECK(t.hp() == 1305);
  CHECK(t.state.brake == row_brake::off);
  CHECK(t.ticks(21, {}).brake == true);  // all caps are in force, and it may still be too much
  t.ticks(100, {});
  CHECK(t.state.brake == row_brake::on);  // ROW-4: not released unseen
  CHECK(t.tick(0.5).brake == false);
}

TEST_CASE("ROW-3: a row whose caps in force are safe stands as it is while nothing is read") {
  ticker t(row_rule::polca);
  t.at_caps = 0.7;
  t.tick(0.95);
  t.ticks(200, {});
  CHECK(t.lp() == 1110);
  CHECK(t.hp() == 1410);
  CHECK(t.state.brake == row_brake::off);
}

TEST_CASE("ROW-5: with release groups a brake is released group by group, while there is room") {
  auto rules = rules_of(row_rule::none, {}, 2 * second, 2 * second);
  rules.release_groups = 3;
  ticker t(row_rule::none);
  t.policy = row_policy(rules);
  std::vector<int> released;
  const auto ticks = [&](int n, std::optional<double> power) {
    for (int i = 0; i < n; ++i)
      if (const auto c = t.tick(power); c.release_group) released.push_back(*c.release_group);
  };
  t.tick(1.01);
  ticks(17, 0.3);
  CHECK(released.empty());
  ticks(1, 0.3);
  CHECK(released == std::vector{0});
  ticks(4, 0.3);
  CHECK(released == std::vector{0});
  ticks(1, 0.3);
  CHECK(released == std::vector{0, 1});
  ticks(20, 0.96);  // no room for another
  ticks(2, {});     // nor without a reading
  CHECK(released == std::vector{0, 1});
  CHECK(t.state.brake == row_brake::releasing);
  ticks(1, 0.94);
  CHECK(released == std::vector{0, 1, 2});
  ticks(3, 0.94);
  CHECK(t.state.brake == row_brake::off);

  released.clear();
  t.tick(1.01);
  ticks(19, 0.3);
  REQUIRE(released == std::vector{0});
  CHECK(t.tick(1.02).brake == true);  // pulled again, for all
  CHECK(t.state.released_groups == 0);
  CHECK(t.state.brakes == 3);
}

TEST_CASE("ROW-5: groups of a release are drawn anew for each brake, of all children alike") {
  int same = 0;
  std::array<int, 4> of{};
  for (uint64_t child = 0; child < 4000; ++child) {
    const int group = release_group(7, 1, child, 4);
    ++of[static_cast<size_t>(group)];
    same += group == release_group(7, 2, child, 4);
    CHECK(group == release_group(7, 1, child, 4));
  }
  for (const int n : of) CHECK(std::abs(n - 1000) < 120);
  CHECK(std::abs(same - 1000) < 120);
}

TEST_CASE("ROW-6: while a child draws above its cap the next rung is taken, and none is undone") {
  ticker t(row_rule::polca);
  t.unruly = true;
  t.ticks(30, 0.5);
  CHECK(t.lp() == 1410);  // nothing is asked of it
  t.tick(0.82);
  t.ticks(20, 0.82);
  CHECK(t.lp() == 1275);
  t.tick(0.82);  // settled, and still needed
  CHECK(t.lp() == 1110);
  t.ticks(60, 0.70);
  CHECK(t.lp() == 1110);
  t.unruly = false;
  t.tick(0.70);
  CHECK(t.lp() == 1275);
}

TEST_CASE("STH-1: safe thresholds: no rise is from before a gap or a brake to behind it") {
  safe_threshold_policy s(2 * second, 40 * second);
  for (const double x : {0.5, 0.6}) s.read(x, false);
  s.read({}, false);
  for (const double x : {0.9, 0.95}) s.read(x, false);
  s.read(0.2, true);
  s.read(0.95, false);
  CHECK(s.largest() == doctest::Approx(0.1));
  CHECK(s.safe_t2() == doctest::Approx(0.9));
}

TEST_CASE(
    "STH-2: safe thresholds: rises count within a reading and the actuation's p99, which grows") {
  safe_threshold_policy s(2 * second, 4 * second);
  CHECK(s.p99_ns() == 4 * second);
  for (const double x : {0.10, 0.15, 0.20, 0.25, 0.30, 0.35}) s.read(x, false);
  CHECK(s.largest() == doctest::Approx(0.15));  // within three ticks
  for (int i = 0; i < 99; ++i) s.acted(2 * second);
  CHECK(s.p99_ns() == 2 * second);
  for (const double x : {0.40, 0.45, 0.50}) s.read(x, false);
  CHECK(s.largest() == doctest::Approx(0.15));
  s.acted(8 * second);
  CHECK(s.p99_ns() == 2 * second);
  s.acted(8 * second);
  CHECK(s.p99_ns() == 8 * second);
  for (const double x : {0.10, 0.12, 0.14, 0.16, 0.18, 0.28}) s.read(x, false);
  CHECK(s.largest() == doctest::Approx(0.18));  // within five
  for (int i = 0; i < 300; ++i) s.acted(0);
  CHECK(s.p99_ns() == 0);
  CHECK(s.safe_t2() == doctest::Approx(0.82));
}

TEST_CASE("row policy: thresholds that are no shares, or not in order, are refused") {
  const auto refused = [](row_rule rule, row_thresholds t) {
    const auto s = check(rule, t);
    return !s && s.error().code == errc::usage && !s.error().hint.empty();
  };
  CHECK(check(row_rule::polca, {}));
  CHECK(check(row_rule::ladder, {0.85, 0.92, 0.95}));
  CHECK(refused(row_rule::polca, {80, 89, 95}));
  CHECK(refused(row_rule::polca, {0.9, 0.8, 0.95}));
  CHECK(check(row_rule::low, {0.9, 0.8, 0.95}));
  CHECK(refused(row_rule::ladder, {0.8, 0.96, 0.95}));
  CHECK(refused(row_rule::none, {0.04, 0.8, 0.95}));
  CHECK(refused(row_rule::none, {std::numeric_limits<double>::quiet_NaN(), 0.8, 0.95}));
}

TEST_CASE("largest rise: within so many readings, from the lowest of them") {
  const auto rise = [](size_t window, std::initializer_list<double> readings) {
    largest_rise r(window);
    for (const double x : readings) r.add(x);
    return r.most();
  };
  CHECK(rise(1, {0.5, 0.4, 0.1, 0.3, 0.6}) == doctest::Approx(0.3));
  CHECK(rise(2, {0.5, 0.4, 0.1, 0.3, 0.6}) == doctest::Approx(0.5));
  CHECK(rise(3, {0.1, 0.2, 0.2, 0.2, 0.25, 0.9, 0.8}) == doctest::Approx(0.7));
  CHECK(rise(2, {0.1, 0.3, 0.3, 0.6}) == doctest::Approx(0.3));
  CHECK(rise(5, {0.9, 0.8, 0.7}) == 0);
}

TEST_CASE("largest rise: none is from before a gap to behind it") {
  largest_rise r(4);
  for (const double x : {0.3, 0.2, 0.5}) r.add(x);
  r.restart();
  for (const double x : {0.9, 0.8, 0.95}) r.add(x);
  CHECK(r.most() == doctest::Approx(0.3));
}
