// Plans of growth: never above what the simulator carries, lower by each doubt, and the same twice.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "actors/sim/row/row_plan.hpp"

using namespace troupe;
using namespace troupe::sim;
using power::row_rule;

namespace {

/// What a simulated row of 40 servers draws under no caps.
power::row_trace simulated(int weeks, uint64_t seed = 1) {
  row_options o;
  o.rule = row_rule::none;
  o.weeks = weeks;
  o.seed = seed;
  std::vector<row_tick> ticks;
  simulate_row(o, &ticks);
  power::row_trace out;
  out.step_s = o.telemetry_s;
  out.columns.resize(1);
  for (const auto& t : ticks) out.columns[0].push_back(t.power * static_cast<float>(o.budget_w));
  return out;
}

/// A quiet sine a day, with a jump now and then, of so many servers.
power::row_trace by_server(int servers, double days, double step_s) {
  power::row_trace out;
  out.step_s = step_s;
  out.by_server = true;
  const auto samples = static_cast<size_t>(days * 86'400 / step_s);
  rng chance(5);
  for (int s = 0; s < servers; ++s) {
    out.columns.emplace_back();
    double busy = 0;
    for (size_t i = 0; i < samples; ++i) {
      const double hour = static_cast<double>(i) * step_s / 3600;
      if (chance.chance(0.02)) busy = chance.chance(0.5 + 0.3 * std::sin(hour / 24 * 6.2832));
      out.columns.back().push_back(static_cast<float>(2500 + 1700 * busy));
    }
  }
  return out;
}

row_plan planned(const power::row_trace& t, plan_options o = {}) {
  o.resamples = 8;
  o.row.weeks = 2;
  const auto p = plan_row_growth(t, o);
  REQUIRE(p);
  return *p;
}

}  // namespace

TEST_CASE("row plan: its answer is within the simulator's own growth, and not below two thirds") {
  int growth = 0;
  for (int added = 1; added <= 20; ++added) {
    row_options o;
    o.servers = 40 + added;
    o.weeks = 3;
    if (simulate_row(o).brakes > 0) break;
    growth = added;
  }
  REQUIRE(growth > 5);
  const auto trace = simulated(3);
  for (const bool own : {false, true}) {
    plan_options o;
    o.own_thresholds = own;
    const auto p = planned(trace, o);
    CAPTURE(growth);
    CHECK(p.fits);
    CHECK(p.servers_added <= growth);
    CHECK(3 * p.servers_added >= 2 * growth);
    CHECK(p.answer().clean == 8);
    CHECK(p.answer().t2 <= (own ? 0.89 : power::safe_t2(p.rise)) + 1e-9);
  }
}

TEST_CASE("RWP-1 a shorter trace, gaps and slow samples are said, and lower the answer") {
  const auto whole = simulated(2);
  const auto full = planned(whole);
  const auto lower = [&](const power::row_trace& t) {
    const auto p = planned(t);
    CHECK(p.notes.size() >= 1);
    CHECK(p.doubt > full.doubt);
    CHECK(p.servers_added <= full.servers_added);
    return p;
  };
  auto glitch = whole;  // of a meter, or of a day's maintenance
  glitch.columns[0][1000] = 1;
  CHECK(planned(glitch).servers_added <= full.servers_added);
  auto daily = whole;
  daily.step_s = 86'400;
  const auto refused = plan_row_growth(daily, {});
  REQUIRE(!refused);
  CHECK(refused.error().is(slow_trace));
  auto gaps = whole;
  gaps.filled = 10;
  gaps.longest_gap_s = 22;
  CHECK(lower(gaps).rows[0].peak > full.rows[0].peak * 1.01);
  auto part = whole;
  part.columns[0].resize(5 * 43'200);
  CHECK(lower(part).notes[0].find("less than a week") != std::string::npos);
  auto slow = whole;
  slow.step_s = 60;
  slow.columns[0].clear();
  for (size_t i = 0; i < whole.samples(); i += 30)
    slow.columns[0].push_back(*std::max_element(
        whole.columns[0].begin() + static_cast<ptrdiff_t>(i),
        whole.columns[0].begin() + static_cast<ptrdiff_t>(std::min(i + 30, whole.samples()))));
  const auto p = lower(slow);
  CHECK(p.notes.back().find("slower than clocks follow") != std::string::npos);
  CHECK(p.rise_s == 60);
}

TEST_CASE("RWP-2 the same trace and seed give the same plan, of servers too") {
  const auto t = by_server(12, 9, 10);
  plan_options o;
  o.row.servers = 12;
  o.row.budget_w = 12 * 5000;
  const auto a = planned(t, o), b = planned(t, o);
  REQUIRE(a.rows.size() == b.rows.size());
  CHECK(a.rows.size() > 2);
  for (size_t i = 0; i < a.rows.size(); ++i) {
    CHECK(a.rows[i].peak == b.rows[i].peak);
    CHECK(a.rows[i].clean == b.rows[i].clean);
  }
  CHECK(a.servers_added > 0);
  CHECK(a.rows.back().clean < 8);
}

TEST_CASE("row plan: a row that is full already says so, and brakes grow with the row") {
  plan_options o;
  o.row.budget_w = 0.7 * 216'000;
  const auto p = planned(simulated(1), o);
  CHECK(!p.fits);
  CHECK(p.servers_added == 0);
  CHECK(p.rows.front().brakes > 0);
  CHECK(p.rows.back().brakes >= p.rows.front().brakes);
}

TEST_CASE("row plan: too short a trace and watts that are none of the budget's are refused") {
  auto t = simulated(1);
  plan_options o;
  o.row.budget_w = 216;  // kilowatts
  const auto units = plan_row_growth(t, o);
  REQUIRE(!units);
  CHECK(units.error().is(watts_beyond));
  o.row.budget_w = 1e9;
  CHECK(plan_row_growth(t, o).error().is(watts_beyond));
  t.columns[0].resize(100);
  const auto brief = plan_row_growth(t, {});
  REQUIRE(!brief);
  CHECK(brief.error().is(short_trace));
}
