// Where each nanosecond of a run's wall time is booked, and that none is lost.
#include "actors/health/time_ledger_policy.hpp"

#include <doctest/doctest.h>
#include <functional>
#include <vector>

#include "actors/sim/rng.hpp"
#include "tests/actors/health/seconds.hpp"

using namespace troupe::health;
using troupe::health::test::s;

namespace {

constexpr int64_t hour_s = 3600;

/// A run that makes its first steps, of 10 s each, from 5 s on.
time_ledger_policy trained(uint64_t steps) {
  time_ledger_policy l;
  l.begin(0);
  l.step_began(1, 2, 5 * s);
  for (uint64_t i = 1; i <= steps; ++i) l.step_ended(i, 2, (5 + 10 * static_cast<int64_t>(i)) * s);
  return l;
}

int64_t seconds(const time_ledger_policy& l, time_use use) {
  return l.whole()[use] / s;
}

/// HEAL-7.
void check_sums(const time_ledger_policy& l, int64_t begun_ns, int64_t now_ns) {
  REQUIRE(l.whole().wall_ns() == now_ns - begun_ns);
  const auto& hours = l.hours();
  for (size_t i = 0; i < hours.size(); ++i) {
    const auto from_ns = static_cast<int64_t>(l.first_hour() + i) * hour_s * s;
    const auto to_ns = std::min(from_ns + hour_s * s, now_ns - begun_ns);
    REQUIRE(hours[i].wall_ns() == to_ns - from_ns);
  }
  for (size_t u = 0; u < time_uses; ++u) REQUIRE(l.whole()[static_cast<time_use>(u)] >= 0);
}

}  // namespace

TEST_CASE("ledger: a run without faults starts, and is useful but for its stalls and pauses") {
  auto l = trained(3);
  l.save_blocked(33 * s, 35 * s);
  l.pause(35 * s);
  l.resume(75 * s);
  l.step_ended(4, 2, 85 * s);
  l.end(85 * s);
  l.step_ended(5, 2, 100 * s);
  CHECK(seconds(l, time_use::start) == 5);
  CHECK(seconds(l, time_use::useful) == 38);
  CHECK(seconds(l, time_use::checkpoint_stall) == 2);
  CHECK(seconds(l, time_use::paused) == 40);
  CHECK(l.whole().wall_ns() == 85 * s);
  CHECK(l.whole().effective() == doctest::Approx(38.0 / 85));
}

TEST_CASE("ledger: a recovery takes back the step under way and those above where it returns") {
  auto l = trained(6);        // until 65 s
  l.noticed(68 * s, 70 * s);  // 3 s into step 7
  l.named(71 * s);
  l.hold(72 * s);
  l.members_there(80 * s);
  l.connected(83 * s);
  l.restored(4, 3, 87 * s);    // 5 and 6 are made again
  l.step_ended(5, 2, 90 * s);  // of the epoch that has ended
  l.step_ended(5, 3, 97 * s);
  CHECK(seconds(l, time_use::start) == 5);
  CHECK(seconds(l, time_use::useful) == 40 + 10);
  CHECK(seconds(l, time_use::repeated) == 20 + 3);
  CHECK(seconds(l, time_use::detect) == 2);
  CHECK(seconds(l, time_use::diagnose) == 1);
  CHECK(seconds(l, time_use::re_form) == 1 + 3);
  CHECK(seconds(l, time_use::waiting_for_nodes) == 8);
  CHECK(seconds(l, time_use::restore) == 4);
  CHECK(l.steps_repeated() == 2);
  CHECK(l.whole().wall_ns() == 97 * s);
}

TEST_CASE("ledger: a step that ended shows that nothing had happened before it") {
  auto l = trained(6);
  l.noticed(30 * s, 70 * s);  // its last heartbeat is older than the step
  CHECK(seconds(l, time_use::detect) == 5);
  CHECK(seconds(l, time_use::useful) == 60);
}

TEST_CASE("ledger: a fault during a recovery begins its detection anew") {
  auto l = trained(1);  // until 15 s
  l.noticed(15 * s, 16 * s);
  l.named(17 * s);
  l.noticed(18 * s, 20 * s);
  l.named(20 * s);
  l.connected(22 * s);
  l.noticed(25 * s, 26 * s);
  l.named(26 * s);
  l.connected(27 * s);
  l.restored(1, 5, 28 * s);
  CHECK(seconds(l, time_use::detect) == 1 + 2 + 1);
  CHECK(seconds(l, time_use::diagnose) == 1);
  CHECK(seconds(l, time_use::re_form) == 1 + 2 + 1);
  CHECK(seconds(l, time_use::restore) == 3 + 1);
  CHECK(l.steps_repeated() == 0);
}

TEST_CASE("ledger: a head that was away is booked when it is known, and steps made by then stand") {
  auto l = trained(2);  // until 25 s
  l.head_was_away(20 * s, 40 * s);
  CHECK(seconds(l, time_use::head_away) == 15);
  CHECK(seconds(l, time_use::useful) == 20);
}

TEST_CASE("ledger: one goes on where another's time ends, and what is made again is repeated") {
  time_entries before;
  before[time_use::useful] = 100 * s;
  before[time_use::head_away] = 5 * s;
  time_ledger_policy l;
  l.begin_after(before, 4, 20, 200 * s);
  CHECK(l.whole() == before);
  l.connected(202 * s);
  l.restored(18, 3, 203 * s);
  CHECK(l.steps_repeated() == 6);
  l.step_began(19, 3, 203 * s);
  l.step_ended(19, 3, 207 * s);
  CHECK(l.whole()[time_use::re_form] == 2 * s);
  CHECK(l.whole()[time_use::restore] == 1 * s);
  CHECK(l.whole()[time_use::useful] == 104 * s);
  CHECK(l.whole().wall_ns() == 112 * s);
  CHECK(l.hours().size() == 1);
  CHECK(l.hours().front().wall_ns() == 7 * s);
}

TEST_CASE("ledger: hours are told apart, and settled backwards like the whole") {
  time_ledger_policy l;
  l.begin(0);
  l.step_began(1, 1, 0);
  const int64_t step_s = 1000;
  for (int64_t i = 1; i <= 9; ++i) l.step_ended(static_cast<uint64_t>(i), 1, i * step_s * s);
  REQUIRE(l.hours().size() == 3);
  CHECK(l.hours()[0].effective() == 1);
  l.noticed(9000 * s, 9000 * s);
  l.named(9000 * s);
  l.connected(9000 * s);
  l.restored(3, 2, 9000 * s);  // from 3,000 s on
  CHECK(l.hours()[0][time_use::repeated] == 600 * s);
  CHECK(l.hours()[1][time_use::repeated] == 3600 * s);
  CHECK(l.hours()[2][time_use::repeated] == 1800 * s);
  CHECK(l.last_hour()[time_use::repeated] == 3660 * s);  // 9,000 s end a minute
  l.step_ended(4, 2, 9030 * s);
  CHECK(l.last_hour()[time_use::useful] == 30 * s);
  CHECK(l.last_hour().wall_ns() == 3630 * s);
}

TEST_CASE("TLG-1: ledger: more steps than it keeps spans are taken back by their mean") {
  time_ledger_policy l;
  l.begin(0);
  l.step_began(1, 1, 0);
  const uint64_t steps = 3 * time_ledger_policy::spans_kept;
  for (uint64_t i = 1; i <= steps; ++i) l.step_ended(i, 1, static_cast<int64_t>(i) * s);
  const auto now_ns = static_cast<int64_t>(steps) * s;
  l.noticed(now_ns, now_ns);
  l.named(now_ns);
  l.connected(now_ns);
  l.restored(steps - 5001, 2, now_ns);
  CHECK(l.whole()[time_use::repeated] == 5001 * s);  // equal steps: exact
  CHECK(l.steps_repeated() == 5001);
  check_sums(l, 0, now_ns);
}

TEST_CASE("HEAL-7: ledger: the entries sum to the wall time after any sequence of events") {
  using event = std::function<void(time_ledger_policy&, troupe::sim::rng&, int64_t now_ns)>;
  const auto epoch = [](auto& r) { return static_cast<uint32_t>(r.below(4)); };
  const auto before = [](auto& r, int64_t now_ns) { return now_ns - r.between(-10, 400) * s; };
  const std::vector<event> events = {
      [&](auto& l, auto& r, int64_t now) { l.step_began(r.below(50), epoch(r), now); },
      [&](auto& l, auto& r, int64_t now) { l.step_ended(r.below(500), epoch(r), now); },
      [&](auto& l, auto& r, int64_t now) { l.step_ended(r.below(500), epoch(r), now); },
      [&](auto& l, auto& r, int64_t now) { l.noticed(before(r, now), now); },
      [&](auto& l, auto&, int64_t now) { l.named(now); },
      [&](auto& l, auto&, int64_t now) { l.hold(now); },
      [&](auto& l, auto&, int64_t now) { l.members_there(now); },
      [&](auto& l, auto&, int64_t now) { l.connected(now); },
      [&](auto& l, auto& r, int64_t now) { l.restored(r.below(500), epoch(r), now); },
      [&](auto& l, auto& r, int64_t now) { l.save_blocked(before(r, now), now); },
      [&](auto& l, auto&, int64_t now) { l.pause(now); },
      [&](auto& l, auto&, int64_t now) { l.resume(now); },
      [&](auto& l, auto& r, int64_t now) { l.head_was_away(before(r, now), now); },
  };
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    troupe::sim::rng random(seed);
    time_ledger_policy l;
    const int64_t begun = random.between(-1000, 1000) * s;
    int64_t now = begun, latest = begun;
    l.begin(begun);
    for (int i = 0; i < 400; ++i) {
      now += random.chance(0.1) ? random.between(-100, 9000) * s : random.between(0, 30 * s);
      events[random.below(events.size())](l, random, now);
      latest = std::max(latest, now);
      check_sums(l, begun, latest);
    }
    l.end(latest + 7);
    check_sums(l, begun, latest + 7);
  }
}

TEST_CASE("HEAL-7: ledger: thousands of steps with stalls, which faults take back, sum as well") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    troupe::sim::rng random(seed);
    time_ledger_policy l;
    l.begin(0);
    int64_t now = 0;
    uint64_t step = 0, repeated = 0, made = 0;
    uint32_t epoch = 1;
    while (++made <= 7000) {  // two spans of each stay: more than are kept
      l.step_began(++step, epoch, now);
      now += random.between(1, 2 * s);
      l.save_blocked(now - random.between(0, s), now);
      check_sums(l, 0, now);
      now += random.between(1, 2 * s);
      l.step_ended(step, epoch, now);
      check_sums(l, 0, now);
      if (!random.chance(0.005)) continue;
      const auto back = step - random.below(std::min<uint64_t>(step, 3000));
      now += random.between(0, 20 * s);
      l.noticed(now - random.between(0, 30 * s), now);
      l.named(now);
      l.restored(back, ++epoch, now += random.between(0, 5 * s));
      check_sums(l, 0, now);
      repeated += step - back;
      step = back;
    }
    CHECK(l.steps_repeated() == repeated);
    CHECK(repeated > 1000);
  }
}

TEST_CASE("TLG-1: ledger: a very long run keeps its newest hours, and sums still") {
  time_ledger_policy l;
  l.begin(0);
  const int64_t hours = 2 * static_cast<int64_t>(time_ledger_policy::hours_kept);
  for (int64_t h = 1; h <= hours; ++h) l.pause(h * hour_s * s);
  CHECK(l.hours().size() == time_ledger_policy::hours_kept);
  CHECK(l.first_hour() + l.hours().size() == static_cast<uint64_t>(hours));
  check_sums(l, 0, hours * hour_s * s);
  l.resume(10 * hours * hour_s * s);  // nothing happened for years
  CHECK(l.hours().size() == time_ledger_policy::hours_kept);
  check_sums(l, 0, 10 * hours * hour_s * s);
}
