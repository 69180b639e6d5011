// The profile that a job measures of itself: which clocks are tried where, what counts, and that
// what comes out is what made replicas take and draw.
#include "actors/power/live_profile_policy.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/slack_plan.hpp"
#include "tests/actors/power/made_pipeline.hpp"
#include "tests/actors/power/slack_profiles.hpp"

using namespace troupe;
using namespace troupe::power;
using troupe::power::test::made_pipeline;

namespace {

using profile_state = live_profile_policy::state;
using profile_failure = live_profile_policy::failure;
using stage_ladders = std::vector<std::vector<int>>;

constexpr int profiled_stages = 4;

made_pipeline four_stages(std::vector<double> slowness) {
  made_pipeline out;
  out.truth = a100_form(profiled_stages);
  out.slowness = std::move(slowness);
  return out;
}

/// A policy, and the job that it measures.
struct profiled_job {
  made_pipeline made;
  std::vector<int> clocks;
  live_profile_policy policy;
  std::vector<std::set<int>> tried;  ///< by trial that was begun, of all ranks
  uint64_t seen = 0;

  explicit profiled_job(made_pipeline of)
      : made(std::move(of)),
        clocks(tried_clocks(made.clocks(), {})),
        policy(stage_ladders(made.stages(), clocks), made.slowness.size(), made.blocking_w) {}

  void make(double longer = 1) {
    made.make([&](size_t s, size_t d) { return policy.clock_of(s, d); }, longer);
  }
  void hear(bool modelled = false) {
    for (size_t m = 0; m < made.joules.size(); ++m)
      policy.hear(m, made.joules[m], modelled, made.now_ns);
  }
  void tell(bool counts = true) {
    policy.step(
        {policy.trial(), made.now_ns, static_cast<double>(made.step_ns) / 1e9, counts, made.ranks});
  }
  void step() {
    if (policy.trial() != seen) tried.emplace_back();
    seen = policy.trial();
    for (size_t s = 0; s < made.stages(); ++s)
      for (size_t d = 0; d < made.slowness.size(); ++d) tried.back().insert(policy.clock_of(s, d));
    make();
    hear();
    tell();
  }
  /// Steps that it took; at most so many.
  int measure(int most = 2000) {
    for (int i = 0; i < most; ++i) {
      if (policy.now() != profile_state::measuring) return i;
      step();
    }
    return most;
  }
};

void check_rows(const clock_profile& found, const clock_profile& truth) {
  REQUIRE(found.stages.size() == truth.stages.size());
  for (int s = 0; s < static_cast<int>(truth.stages.size()); ++s)
    for (const auto which : {instruction::forward, instruction::backward}) {
      const auto &is = found.rows(s, which), &should = truth.rows(s, which);
      REQUIRE(is.size() == should.size());
      for (size_t i = 0; i < is.size(); ++i) {
        CHECK(is[i].frequency_mhz == should[i].frequency_mhz);
        CHECK(is[i].time_s == doctest::Approx(should[i].time_s).epsilon(1e-5));
        CHECK(is[i].energy_j == doctest::Approx(should[i].energy_j).epsilon(1e-5));
      }
    }
}

slack_plan plan_of_rows(const clock_profile& profile) {
  frontier_policy policy(profile, 8, 84);
  return plan_slack(policy, planned_frontier(policy), 0.01);
}

}  // namespace

TEST_CASE("LPP-5: live profile: its frontier is that of what the machines take and draw") {
  profiled_job job(four_stages({1}));
  CHECK(job.measure() < 100);
  REQUIRE(job.policy.now() == profile_state::measured);
  CHECK_FALSE(job.policy.is_modelled());
  const auto truth = job.made.only(job.clocks);
  check_rows(job.policy.profile(), truth);
  const auto reread = parse_profile(job.policy.profile().text());
  REQUIRE(reread);
  check_rows(*reread, truth);
  const auto found = plan_of_rows(*reread), should = plan_of_rows(truth);
  CHECK(found.highest.time_s == doctest::Approx(should.highest.time_s).epsilon(1e-5));
  for (const double longer : {1.0, 1.05, 1.1, 1.2, 1.5}) {
    const auto& is = found.points[found.at(longer * should.highest.time_s)].cost;
    const auto& expected = should.points[should.at(longer * should.highest.time_s)].cost;
    CHECK(is.energy_j == doctest::Approx(expected.energy_j).epsilon(1e-3));
    CHECK(is.time_s <= longer * should.highest.time_s * (1 + 1e-3));
  }
}

TEST_CASE("LPP-4: live profile: unlike replicas share the clocks, and the middle one's is told") {
  profiled_job one(four_stages({1}));
  profiled_job three(four_stages({0.9, 1, 1.1}));
  one.measure();
  three.measure();
  REQUIRE(three.policy.now() == profile_state::measured);
  check_rows(three.policy.profile(), three.made.only(three.clocks));
  CHECK(one.tried.size() == 8);
  CHECK(three.tried.size() == 4);  // all, then two times three clocks, then the last one
  CHECK(three.tried[0] == std::set<int>{1410});
  CHECK(three.tried[1] == std::set<int>{three.clocks[1], three.clocks[2], three.clocks[3]});
  CHECK(three.tried[3] == std::set<int>{1410, three.clocks[7]});
}

TEST_CASE("LPP-4: live profile: replicas that share a machine have one clock") {
  auto made = four_stages({1, 1, 1, 1});
  made.ranks_a_machine = 2 * profiled_stages;  // two replicas
  profiled_job job(std::move(made));
  while (job.policy.now() == profile_state::measuring && job.tried.size() < 3) {
    job.step();
    if (job.policy.now() != profile_state::measuring) break;
    CHECK(job.policy.clock_of(0, 0) == job.policy.clock_of(0, 1));
    CHECK(job.policy.clock_of(0, 2) == job.policy.clock_of(0, 3));
  }
  job.measure();
  REQUIRE(job.policy.now() == profile_state::measured);
  CHECK(job.tried.size() == 5);  // two clocks a trial
  auto near = four_stages({1});
  near.truth = a100_form(1);
  profiled_job alone(std::move(near));
  alone.measure();
  REQUIRE(alone.policy.now() == profile_state::measured);
  check_rows(alone.policy.profile(), alone.made.only(alone.clocks));
}

TEST_CASE("LPP-1: live profile: what is no step at its clocks changes no row") {
  profiled_job plain(four_stages({1})), disturbed(four_stages({1}));
  const int steps = plain.measure();
  for (int i = 0; disturbed.policy.now() == profile_state::measuring && i < 40 * steps; ++i) {
    switch (i % 8) {
      case 2:  // a pace, a brake or a late clock
        disturbed.make(3);
        disturbed.hear();
        disturbed.tell(false);
        break;
      case 4:  // other clocks than those that were ordered
        disturbed.make(2);
        disturbed.hear();
        disturbed.policy.step({0, disturbed.made.now_ns, 2, true, disturbed.made.ranks});
        break;
      case 6:  // a validation, which draws most
        disturbed.made.now_ns += 30'000'000'000;
        for (auto& j : disturbed.made.joules) j += 30 * 400;
        disturbed.hear();
        break;
      default:
        disturbed.step();
    }
  }
  REQUIRE(disturbed.policy.now() == profile_state::measured);
  check_rows(disturbed.policy.profile(), disturbed.made.only(disturbed.clocks));
}

TEST_CASE("LPP-2 and LPP-3: live profile: from steps that are unlike each other no row comes") {
  profiled_job job(four_stages({1}));
  int steps = 0;
  for (; job.policy.now() == profile_state::measuring && steps < 2000; ++steps) {
    job.make(steps % 2 == 0 ? 1 : 1.3);
    job.hear();
    job.tell();
  }
  CHECK(job.policy.now() == profile_state::failed);
  CHECK(job.policy.why() == profile_failure::uneven);
  CHECK(steps < 100);
}

TEST_CASE("LPP-2 and LPP-3: live profile: a clock whose steps are uneven is left out") {
  profiled_job job(four_stages({1}));
  for (int i = 0; job.policy.now() == profile_state::measuring && i < 2000; ++i) {
    job.make(job.policy.clock_of(0, 0) == job.clocks[3] && i % 2 == 0 ? 1.3 : 1);
    job.hear();
    job.tell();
  }
  REQUIRE(job.policy.now() == profile_state::measured);
  auto rest = job.clocks;
  rest.erase(rest.begin() + 3);
  check_rows(job.policy.profile(), job.made.only(rest));
}

TEST_CASE("LPP-2: live profile: without joules of a machine nothing is measured") {
  profiled_job job(four_stages({1}));
  for (int i = 0; job.policy.now() == profile_state::measuring && i < 2000; ++i) {
    job.make();
    job.policy.hear(0, job.made.joules[0], false, job.made.now_ns);  // of one of four
    job.tell();
  }
  CHECK(job.policy.now() == profile_state::failed);
  CHECK(job.policy.why() == profile_failure::no_watts);
}

TEST_CASE(
    "LPP-1: live profile: steps of some milliseconds are measured by readings of each second") {
  auto made = four_stages({1});
  made.update_s = 1e-4;
  for (auto& stage : made.truth.stages)
    for (auto& rows : stage)
      for (auto& r : rows) {
        r.time_s /= 100;
        r.energy_j /= 100;
      }
  profiled_job job(std::move(made));
  constexpr int64_t telling_ns = 3'000'000, second_ns = 1'000'000'000;
  int64_t heard_ns = job.made.now_ns;
  int steps = 0;
  for (; job.policy.now() == profile_state::measuring && steps < 20'000; ++steps) {
    job.make();
    job.made.now_ns += telling_ns;  // until the pacer hears of it all wait
    for (auto& j : job.made.joules) j += job.made.blocking_w * telling_ns / 1e9;
    if (job.made.now_ns - heard_ns >= second_ns) {
      heard_ns = job.made.now_ns;
      job.hear();
    }
    job.tell();
  }
  REQUIRE(job.policy.now() == profile_state::measured);
  CHECK(job.made.now_ns < 120 * second_ns);
  const auto truth = job.made.only(job.clocks);
  for (int s = 0; s < profiled_stages; ++s)
    for (const auto which : {instruction::forward, instruction::backward}) {
      const auto &is = job.policy.profile().rows(s, which), &should = truth.rows(s, which);
      REQUIRE(is.size() == should.size());
      for (size_t i = 0; i < is.size(); ++i) {
        CHECK(is[i].time_s == doctest::Approx(should[i].time_s).epsilon(1e-5));
        CHECK(is[i].energy_j == doctest::Approx(should[i].energy_j).epsilon(1e-2));
      }
    }
}

TEST_CASE(
    "LPP-2: live profile: joules that are read too seldom measure nothing, and are said to be") {
  profiled_job job(four_stages({1}));
  job.make();
  job.hear();
  int64_t heard_ns = job.made.now_ns;
  for (int i = 0; job.policy.now() == profile_state::measuring && i < 2000; ++i) {
    job.make();
    if (job.made.now_ns - heard_ns >= 90'000'000'000) {
      heard_ns = job.made.now_ns;
      job.hear();
    }
    job.tell();
  }
  CHECK(job.policy.now() == profile_state::failed);
  CHECK(job.policy.why() == profile_failure::seldom);
  CHECK(in_words(job.policy.why()).find("power.meter_interval_ms") != std::string_view::npos);
}

TEST_CASE("live profile: what was calculated is said to be") {
  profiled_job job(four_stages({1}));
  job.make();
  job.hear(true);
  job.tell();
  job.measure();
  REQUIRE(job.policy.now() == profile_state::measured);
  CHECK(job.policy.is_modelled());
}

TEST_CASE("LPP-1: live profile: ranks that begin anew begin the trial anew, and no other") {
  profiled_job job(four_stages({1}));
  while (job.tried.size() < 3) job.step();
  const auto before = job.policy.trial();
  const auto behind = job.policy.steps_made();
  const int clock = job.policy.clock_of(0, 0);
  job.policy.begin_again();
  CHECK(job.policy.trial() == before + 1);
  CHECK(job.policy.clock_of(0, 0) == clock);
  CHECK(job.policy.steps_made() < behind);
  CHECK(job.policy.steps_made() > 0);
  const auto made = job.policy.steps_made();
  job.make(5);
  job.hear();
  job.policy.step({before, job.made.now_ns, 1, true, job.made.ranks});  // of the old ones
  CHECK(job.policy.steps_made() == made);
  job.measure();
  REQUIRE(job.policy.now() == profile_state::measured);
  check_rows(job.policy.profile(), job.made.only(job.clocks));
}

TEST_CASE("LPP-4: live profile: on other machines all of it begins anew") {
  profiled_job job(four_stages({1}));
  while (job.tried.size() < 4) job.step();
  REQUIRE(job.policy.clock_of(0, 0) < 1410);
  job.policy.begin_again();
  job.made.first_machine = profiled_stages;
  job.made.slowness = {1.5};  // which are slower
  job.step();
  CHECK(job.policy.clock_of(0, 0) == 1410);
  job.measure();
  REQUIRE(job.policy.now() == profile_state::measured);
  auto truth = job.made.only(job.clocks);
  for (auto& stage : truth.stages)
    for (auto& rows : stage)
      for (auto& r : rows) {
        r.time_s *= 1.5;
        r.energy_j *= 1.5;
      }
  check_rows(job.policy.profile(), truth);
}

TEST_CASE("LPP-3: live profile: ranks that come to other machines each time measure nothing") {
  profiled_job job(four_stages({1}));
  const live_profile_terms terms;
  for (int move = 0; move <= terms.most_moves; ++move) {
    REQUIRE(job.policy.now() == profile_state::measuring);
    while (job.policy.now() == profile_state::measuring && !job.policy.is_lowered()) job.step();
    job.policy.begin_again();
    job.made.first_machine += profiled_stages;
    job.step();
  }
  CHECK(job.policy.now() == profile_state::failed);
  CHECK(job.policy.why() == profile_failure::moved);
  CHECK_FALSE(in_words(job.policy.why()).empty());
}

TEST_CASE(
    "LPP-3: live profile: clocks at which ranks begin anew each time are not tried, nor lower "
    "ones") {
  profiled_job job(four_stages({1}));
  const live_profile_terms terms;
  while (job.tried.size() < 4) job.step();  // at the highest clock but two
  for (int i = 0; i < terms.most_cuts; ++i) {
    job.policy.begin_again();
    job.step();
    REQUIRE(job.policy.now() == profile_state::measuring);
  }
  job.policy.begin_again();
  REQUIRE(job.policy.now() == profile_state::measured);
  check_rows(job.policy.profile(), job.made.only({job.clocks.begin(), job.clocks.begin() + 3}));

  profiled_job none(four_stages({1}));
  for (int i = 0; i < 10; ++i) none.policy.begin_again();  // at the highest clock: not by it
  while (none.tried.size() < 2) none.step();               // at the next lower one
  for (int i = 0; i <= terms.most_cuts; ++i) none.policy.begin_again();
  CHECK(none.policy.now() == profile_state::failed);
  CHECK(none.policy.why() == profile_failure::cut_short);
}

TEST_CASE("LPP-3: live profile: of many clocks some are tried, evenly, and none below half") {
  const live_profile_terms terms;
  std::vector<int> many;
  for (int mhz = 300; mhz <= 2000; mhz += 15) many.push_back(mhz);
  const auto tried = tried_clocks(many, terms);
  REQUIRE(tried.size() == terms.clocks);
  CHECK(tried.front() == many.back());
  CHECK(tried.back() >= tried.front() / 2);
  CHECK(tried.back() <= tried.front() / 2 + 15);
  CHECK(std::ranges::is_sorted(tried, std::greater<>()));
  CHECK(tried_clocks({1000, 2000, 2000, 900, 0}, terms) == std::vector<int>{2000, 1000});
  CHECK(tried_clocks({1500}, terms) == std::vector<int>{1500});
  CHECK(tried_clocks({}, terms).empty());
}
