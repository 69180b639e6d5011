// Paces of jobs under caps, by tables.
#include <vector>

#include <doctest/doctest.h>

#include "actors/sim/rng.hpp"
#include "actors/train/work_pace_policy.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

std::optional<int> pace_1024(std::vector<machine_draw> machines) {
  const auto pace = work_pace_policy::pace_of(machines);
  return pace ? std::optional(pace->of_1024) : std::nullopt;
}

}  // namespace

TEST_CASE("PWR-4: work pace: a job follows the tightest of its machines, or must pause") {
  CHECK(pace_1024({}) == 1024);
  CHECK(pace_1024({{100, 500, 500}}) == 1024);
  CHECK(pace_1024({{100, 500, 900}}) == 1024);
  CHECK(pace_1024({{100, 500, 300}}) == 512);
  CHECK(pace_1024({{100, 500, 300}, {100, 500, 400}, {0, 1000, 750}}) == 512);
  CHECK(pace_1024({{100, 500, 121}}) == 53);
  CHECK(!pace_1024({{100, 500, 119}}));
  CHECK(!pace_1024({{100, 500, 500}, {100, 500, 99}}));
  CHECK(pace_1024({{100, 100, 100}}) == 1024);  // it does nothing that could be slowed
  CHECK(!pace_1024({{100, 100, 99}}));
}

TEST_CASE("PWR-4: work pace: what a machine cannot use at the job's pace it does not ask for") {
  const std::vector<machine_draw> machines = {{100, 500, 300}, {200, 800, 800}};
  const auto pace = *work_pace_policy::pace_of(machines);
  CHECK(work_pace_policy::drawn_mw(machines[0], pace) == 300);
  CHECK(work_pace_policy::drawn_mw(machines[1], pace) == 500);
}

TEST_CASE("WPC-1: work pace: what is measured under a pace is taken back to what work draws") {
  CHECK(work_pace_policy::uncapped_mw(100, 300, {512}) == 500);
  CHECK(work_pace_policy::uncapped_mw(100, 500, {1024}) == 500);
  CHECK(!work_pace_policy::uncapped_mw(100, 100, {512}));
  CHECK(!work_pace_policy::uncapped_mw(100, 90, {512}));
  CHECK(!work_pace_policy::uncapped_mw(100, 300, {0}));
}

TEST_CASE("WPC-2: work pace: an operation waits for the stretched time of the one before") {
  CHECK(work_pace_policy::gate_ns(1000, 1600, {1024}) == 1600);
  CHECK(work_pace_policy::gate_ns(1000, 1600, {512}) == 2200);
  CHECK(work_pace_policy::gate_ns(1000, 1000, {512}) == 1000);
  CHECK(work_pace_policy::gate_ns(1000, 900, {512}) == 1000);
  // From when it began, not from when it might have: what was lost is not made up for.
  CHECK(work_pace_policy::gate_ns(5000, 5600, {512}) == 6200);
}

TEST_CASE(
    "PWR-4: work pace: random jobs draw no more than each cap, and almost all of the tightest") {
  sim::rng chance(1);
  int paced = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<machine_draw> machines(1 + chance.below(8));
    for (auto& m : machines) {
      m.idle_mw = chance.between(0, 200'000);
      m.work_mw = m.idle_mw + chance.between(1000, 800'000);
      m.cap_mw = m.idle_mw + chance.between(0, 900'000);
    }
    const auto pace = work_pace_policy::pace_of(machines);
    if (!pace) continue;
    bool tight = *pace == work_pace{};
    for (const auto& m : machines) {
      const auto drawn = work_pace_policy::drawn_mw(m, *pace);
      REQUIRE(drawn <= m.cap_mw);
      tight |= m.cap_mw - drawn <= (m.work_mw - m.idle_mw) / 1024 + 2;
    }
    REQUIRE(tight);
    paced += *pace < work_pace{};
  }
  CHECK(paced > 5000);
}
