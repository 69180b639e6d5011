// What policies of health make of numbers that are none of a machine's: not finite, negative, or
// beyond any. Each of these policies hears one node that tells such numbers among sane ones.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "actors/health/machine_policy.hpp"
#include "actors/health/regression_policy.hpp"
#include "actors/health/straggler_policy.hpp"
#include "actors/health/stuck_policy.hpp"
#include "actors/sim/rng.hpp"
#include "messages/msg.hpp"
#include "tests/actors/health/seconds.hpp"

using namespace troupe;
using namespace troupe::health;

namespace {

using troupe::health::test::s;

constexpr int rounds = 2000;

double odd_number(sim::rng& random) {
  using of = std::numeric_limits<double>;
  constexpr std::array all{of::quiet_NaN(),
                           of::infinity(),
                           -of::infinity(),
                           of::max(),
                           -of::max(),
                           of::denorm_min(),
                           -1.0,
                           -0.0,
                           1e9,
                           1e13,
                           1e19,
                           1e40};
  return all[static_cast<size_t>(random.between(0, std::ssize(all) - 1))];
}

int64_t odd_count(sim::rng& random) {
  using of = std::numeric_limits<int64_t>;
  constexpr std::array<int64_t, 6> all{of::min(), of::max(), -1, 0, 1, int64_t{1} << 53};
  return all[static_cast<size_t>(random.between(0, std::ssize(all) - 1))];
}

fbs::MachineVitalsT odd_machine(sim::rng& random) {
  fbs::MachineVitalsT m;
  for (auto* number : {&m.memory_full_percent, &m.steal_percent, &m.throttled_percent,
                       &m.disk_sync_ms, &m.clock_set_ms})
    if (random.chance(0.5)) *number = odd_number(random);
  for (auto* count : {&m.memory_bytes, &m.available_bytes, &m.disk_bytes, &m.disk_free_bytes})
    if (random.chance(0.5)) *count = odd_count(random);
  return m;
}

}  // namespace

TEST_CASE("odd numbers: a machine's make no finding of another, and sane ones end what they made") {
  sim::rng random(1);
  findings_policy p;
  fbs::MachineVitalsT sane;
  sane.memory_bytes = sane.disk_bytes = 1000;
  sane.available_bytes = sane.disk_free_bytes = 500;
  sane.steal_percent = sane.throttled_percent = sane.memory_full_percent = 1;
  int64_t t = 0;
  for (; t < rounds; ++t) {
    judge_machine("odd", *make_msg<fbs::MachineVitals>({}, odd_machine(random)), t * s, p);
    judge_machine("sane", *make_msg<fbs::MachineVitals>({}, sane), t * s, p);
    p.judge(t * s);
    for (const auto& f : p.standing()) CHECK(f.who.node == "odd");
  }
  for (const auto end = t + 3600; t < end; ++t) {
    judge_machine("odd", *make_msg<fbs::MachineVitals>({}, sane), t * s, p);
    p.judge(t * s);
  }
  CHECK(p.standing().empty());
}

TEST_CASE("odd numbers: one that is none hides no other of the same finding") {
  findings_policy p;
  fbs::MachineVitalsT m;
  m.steal_percent = std::numeric_limits<double>::quiet_NaN();
  m.throttled_percent = 50;
  for (int64_t t = 0; t <= 60; ++t) {
    judge_machine("a", *make_msg<fbs::MachineVitals>({}, m), t * s, p);
    p.judge(t * s);
  }
  REQUIRE(p.standing().size() == 1);
  CHECK(p.standing().front().shown.seen == 50);
}

TEST_CASE("odd numbers: no median of a rank's lets a job stand still for longer than ten minutes") {
  sim::rng random(2);
  stuck_policy p(3 * s, 10 * s);
  p.run_is(stuck_policy::stepping, 5, 0);
  for (int n = 1; n <= rounds; ++n) {
    const auto now = n * s / 2;
    p.hear("odd", 1, static_cast<uint64_t>(n), {{0, 7, odd_number(random)}}, now);
    p.hear("sane", 1, static_cast<uint64_t>(n), {{1, 7, 200}}, now);
    if (n == 1) p.step_done(1, now);
    const auto v = p.judge(now);
    CHECK(v.allowed_ns >= 3 * s);
    CHECK(v.allowed_ns <= 600 * s);
    if (now > 601 * s) CHECK(v.stuck);
  }
}

TEST_CASE("odd numbers: of a rank's steps no other rank is slow, and no window has any") {
  sim::rng random(3);
  step_windows_policy windows(s, 4);
  straggler_policy stragglers({4, 1, 1}, 8, 0.1);
  regression_policy regressions(0.2);
  int seen = 0;
  for (uint64_t step = 1; step <= rounds; ++step)
    for (uint64_t rank = 0; rank < 4; ++rank) {
      rank_step said{1, step, rank, 100, 200, 64};
      const bool odd = rank == 2 && random.chance(0.3);
      if (odd && random.chance(0.5)) said.own_ms = odd_number(random);
      if (odd && random.chance(0.5)) said.whole_ms = odd_number(random);
      const auto w = windows.hear(said, static_cast<int64_t>(step) * s / 4);
      if (!w) continue;
      ++seen;
      CHECK(std::isfinite(w->step_ms));
      CHECK(std::all_of(w->own_ms.begin(), w->own_ms.end(), [](float ms) { return ms >= 0; }));
      const auto v = stragglers.judge(*w, {"n0", "n1", "n2", "n3"});
      CHECK(std::isfinite(v.without_ms));
      for (const auto& r : v.slow) CHECK(r.rank == 2);
      if (const auto slower = regressions.judge(*w)) CHECK(std::isfinite(slower->step_ms));
    }
  CHECK(seen > 0);
}
