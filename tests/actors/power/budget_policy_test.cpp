// A node of the tree of budgets, by tables: what it counts, and when it grants what.
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "tests/actors/power/budget_family.hpp"

using namespace troupe;
using namespace troupe::power;
using troupe::test::budget_second;
using troupe::test::family;

namespace {

using mw = std::vector<int64_t>;

}  // namespace

TEST_CASE(
    "PWR-1: budgets: a decrease counts when it is acked, an increase comes out of what is free") {
  family f;
  f.ticks(5);
  CHECK(f.caps() == mw{10'000, 90'000});  // high priority first
  f.wishes[1] = 30'000;
  f.obeys[1] = false;  // its actuator takes its time
  f.ticks(4);
  CHECK(f.children[1].cap_mw() == 30'000);
  CHECK(f.parent.counted_mw(1) == 90'000);
  CHECK(f.caps() == mw{10'000, 30'000});
  f.obeys[1] = true;
  f.tick();
  CHECK(f.caps() == mw{70'000, 30'000});
}

TEST_CASE("PWR-1: budgets: who was never heard counts at its static share, or what may run there") {
  family f;
  f.speaks[1] = false;
  f.ticks(20);
  CHECK(f.parent.counted_mw(1) == 50'000);
  CHECK(f.caps() == mw{50'000, 50'000});
  f.terms[1].others_work = true;
  f.new_parent(2);
  CHECK(f.parent.counted_mw(1) == 100'000);
  f.ticks(20);
  CHECK(f.last.short_of_floors);
}

TEST_CASE(
    "PWR-1: budgets: what the journal says of a child counts until it has acked our own lease") {
  family f;
  f.ticks(5);
  REQUIRE(f.caps() == mw{10'000, 90'000});
  f.speaks[1] = false;  // dead, and its setting stays
  f.terms[1].remembered_mw = 90'000;
  f.new_parent(2);
  f.ticks(30);
  CHECK(f.parent.counted_mw(1) == 90'000);
  CHECK(f.caps()[0] == 10'000);
  f.speaks[1] = true;
  f.wishes[1] = 0;
  f.ticks(4);
  CHECK(f.caps() == mw{90'000, 10'000});
}

TEST_CASE("PWR-1: budgets: nobody is raised while the sum is above the own cap") {
  family f;
  f.ticks(5);
  REQUIRE(f.caps() == mw{10'000, 90'000});
  f.obeys[1] = false;
  f.wishes[1] = 0;
  f.ticks(3);
  REQUIRE(f.caps() == mw{10'000, 10'000});
  REQUIRE(f.parent.counted_mw(1) == 90'000);
  f.own.cap_mw = 80'000;
  f.wishes[1] = 100'000;  // it is counted at that already, and is to come down from it
  f.ticks(5);
  CHECK(f.caps() == mw{10'000, 10'000});
  f.obeys[1] = true;
  f.ticks(2);
  CHECK(f.caps() == mw{10'000, 70'000});
}

TEST_CASE("BGT-4: budgets: no cut raises a child that has fallen by itself") {
  family f;
  f.ticks(5);
  REQUIRE(f.caps() == mw{10'000, 90'000});
  f.hears[1] = false;
  f.ticks(12);
  REQUIRE(f.children[1].cap_mw() == 50'000);
  REQUIRE(f.parent.counted_mw(1) == 90'000);  // a renewal may be under way
  f.hears[1] = true;
  f.own.cap_mw = 80'000;
  f.tick();
  CHECK(f.caps() == mw{10'000, 50'000});
  f.ticks(2);
  CHECK(f.caps() == mw{10'000, 70'000});
}

TEST_CASE("BGT-4: budgets: cuts that are lost leave no more than the own cap after a lease") {
  family f;
  f.own.cap_mw = 150'000;
  f.wishes = {50'000, 100'000};
  f.ticks(5);
  REQUIRE(f.caps() == mw{50'000, 100'000});
  f.hears[0] = false;
  f.wishes[0] = 0;
  f.own.cap_mw = 100'000;
  f.ticks(15);
  CHECK(f.caps() == mw{50'000, 50'000});  // not 90 for the other
  f.hears[0] = true;
  f.ticks(4);
  CHECK(f.caps() == mw{10'000, 90'000});
}

TEST_CASE("BGT-4: budgets: a child that starts again gets back what it had by a new lease") {
  family f;
  f.own.cap_mw = 300'000;
  f.ticks(5);
  REQUIRE(f.caps() == mw{100'000, 100'000});
  const auto order = f.children[1].order();
  f.children[1] = lease_policy(50'000, 2, 30'000);
  f.tick();
  CHECK(f.children[1].order() == order);
  CHECK(f.children[1].cap_mw() == 30'000);
  f.ticks(3);
  CHECK(f.children[1].order() > order);
  CHECK(f.children[1].cap_mw() == 100'000);
}

TEST_CASE("budgets: a budget that falls a little each tick neither brakes nor shakes a child") {
  family f;
  f.ticks(5);
  REQUIRE(f.caps() == mw{10'000, 90'000});
  for (int i = 0; i < 40; ++i) {
    f.own.cap_mw -= 1000;
    f.seen.drawn_mw = f.children[0].in_force_mw() + f.children[1].in_force_mw();
    const auto before = f.children[1].cap_mw();
    f.tick();
    CHECK(f.children[1].cap_mw() <= before);
    CHECK(f.children[1].cap_mw() >= before - 3000);
    CHECK(f.parent.row().brake == row_brake::off);
  }
  f.ticks(3);
  CHECK(f.caps() == mw{10'000, 50'000});
}

TEST_CASE("PWR-1: budgets: a silent child counts at its last acked cap for ever") {
  family f;
  f.ticks(5);
  REQUIRE(f.caps() == mw{10'000, 90'000});
  f.speaks[1] = false;
  f.ticks(500);
  CHECK(f.children[1].cap_mw() == 50'000);  // PWR-2: it has fallen, and cannot say so
  CHECK(f.parent.counted_mw(1) == 90'000);
  CHECK(f.caps() == mw{10'000, 50'000});
  f.speaks[1] = true;
  f.wishes[1] = 0;
  f.ticks(4);
  CHECK(f.caps() == mw{90'000, 10'000});

  family g;  // what is left beside a silent one is what others may have, when the cap falls, too
  g.wishes[1] = 60'000;
  g.ticks(5);
  REQUIRE(g.caps() == mw{40'000, 60'000});
  g.speaks[1] = false;
  g.ticks(20);
  g.own.cap_mw = 80'000;
  g.ticks(3);
  CHECK(g.parent.counted_mw(1) == 60'000);
  CHECK(g.caps()[0] == 20'000);
}

TEST_CASE("BGT-1: budgets: a restarted parent hears acks before it grants, and holds what is") {
  family f;
  f.ticks(5);
  REQUIRE(f.caps() == mw{10'000, 90'000});
  f.wishes = {100'000, 0};
  f.speaks[1] = false;
  f.new_parent(2);
  f.tick();
  CHECK(f.children[0].order() == lease_order{2, 1});
  CHECK(f.caps() == mw{10'000, 90'000});
  f.ticks(9);
  CHECK(!f.parent.knows(f.now_ns));
  CHECK(f.caps() == mw{10'000, 50'000});
  f.ticks(2);  // ttl, a tick and the actuation: it has fallen by itself
  CHECK(f.parent.knows(f.now_ns));
  CHECK(f.caps() == mw{50'000, 50'000});

  family g;
  g.ticks(5);
  g.wishes = {100'000, 0};
  g.new_parent(2);
  g.tick();
  CHECK(g.caps() == mw{10'000, 90'000});
  g.tick();
  CHECK(g.parent.knows(g.now_ns));  // all have acked: it need not wait
  g.ticks(2);
  CHECK(g.caps() == mw{90'000, 10'000});
}

TEST_CASE("LSE-2: budgets: a restarted parent that hears of long ago first raises nobody by it") {
  family f;
  f.ticks(5);
  REQUIRE(f.caps() == mw{10'000, 90'000});
  const auto delayed = f.children[1].report(f.now_ns, {}, 100'000);
  f.now_ns += 1;
  f.wishes[1] = 0;
  f.ticks(4);
  REQUIRE(f.caps() == mw{90'000, 10'000});
  f.new_parent(2);
  f.parent.hear(1, delayed, f.now_ns);
  f.last = f.parent.tick(f.own, f.seen, f.now_ns);
  REQUIRE(f.last.grants.size() == 1);
  REQUIRE(f.last.grants[0].grant.cap_mw == 90'000);
  CHECK(f.children[1].hear(f.last.grants[0].grant, f.now_ns) == grant_verdict::taken);
  CHECK(f.caps() == mw{90'000, 10'000});
  f.wishes[1] = 5000;
  f.ticks(4);  // it is told what is in force, and that is what it grants then
  CHECK(f.caps() == mw{90'000, 10'000});
  CHECK(f.parent.counted_mw() == 100'000);
  f.wishes = {0, 100'000};
  f.ticks(4);
  CHECK(f.caps() == mw{10'000, 90'000});
}

TEST_CASE("PWR-2: budgets: what a node counts for children it has not heard is not what it has") {
  family f;
  CHECK(f.parent.told_mw() == 0);
  f.wishes = {10'000, 15'000};
  f.own.cap_mw = 25'000;
  f.ticks(5);
  REQUIRE(f.caps() == mw{10'000, 15'000});
  f.new_parent(2);
  f.speaks[0] = false;
  f.tick();
  CHECK(f.parent.counted_mw() == 100'000);
  CHECK(f.parent.told_mw() == 15'000);
  lease_policy own(100'000, 1, f.parent.told_mw());  // of the node, at its own parent
  own.read_back(f.parent.counted_mw());
  CHECK(own.tick(f.now_ns) == 15'000);
  CHECK(own.in_force_mw() == 100'000);
}

TEST_CASE("BGT-1: budgets: a restarted parent cuts at once where more is told than it has") {
  family f;
  f.ticks(5);
  REQUIRE(f.caps() == mw{10'000, 90'000});
  f.new_parent(2);
  f.own.cap_mw = 60'000;
  f.tick();
  CHECK(!f.parent.knows(f.now_ns));
  CHECK(f.caps() == mw{10'000, 50'000});
}

TEST_CASE("BGT-1: budgets: who says that it follows no lease of this parent has not acked one") {
  family f;
  f.tick();
  auto r = f.children[0].report(f.now_ns + 1, {}, 0);
  r.order = {1, 0};
  CHECK(f.parent.hear(0, r, f.now_ns) == report_verdict::impossible);
}

TEST_CASE("budgets: a brake that the parent before pulled is released by the next one") {
  family f;
  f.ticks(5);
  f.draws = {60'000, 100'000};
  f.ticks(4);
  REQUIRE(f.parent.row().brake == row_brake::on);
  f.parent = budget_policy(f.rules, f.terms, 2, f.now_ns, f.parent.row());
  f.draws = {3000, 12'000};
  bool released = false;
  for (int i = 0; i < 60; ++i) {
    f.tick();
    released |= f.last.row.brake == false;
  }
  CHECK(released);
  CHECK(f.parent.row().brake == row_brake::off);
  CHECK(f.parent.row().brakes == 1);
}

TEST_CASE("BGT-6: budgets: a word of a later parent ends granting for who says it alone") {
  family f;
  f.own.cap_mw = 180'000;
  f.wishes = {0, 40'000};
  f.ticks(5);
  REQUIRE(f.parent.counted_mw() <= 180'000);
  const power_report of_later{{1, f.now_ns + 1}, {9, 1}, 5000, {}, 5000};
  CHECK(f.parent.hear(0, of_later, f.now_ns) == report_verdict::newer_life);
  CHECK(f.parent.counted_mw(0) == 100'000);  // whatever that one lets it have
  f.wishes[1] = 100'000;
  f.ticks(12);
  CHECK(f.caps()[1] == 80'000);
  CHECK(f.parent.is_silent(0, f.now_ns));
  CHECK(f.children[0].cap_mw() <= 50'000);          // nobody renews its lease
  f.children[0] = lease_policy(50'000, 2, 50'000);  // a process that follows nobody yet
  f.wishes = {100'000, 0};
  f.ticks(6);
  CHECK(f.caps()[0] == 100'000);
}

TEST_CASE("budgets: a parent that hears of a later one keeps the brake and not its thresholds") {
  family f(budget_mode::thresholds);
  f.ticks(4);
  REQUIRE(f.last.thresholds_stand);
  f.parent.hear(0, {{1, f.now_ns + 1}, {9, 1}, 5000, {}, 5000}, f.now_ns);
  f.tick();
  CHECK(!f.last.thresholds_stand);
  f.seen.drawn_mw = 101'000;
  f.tick();
  CHECK(f.last.row.brake == true);
}

TEST_CASE("budgets: reports that are older or that no child of ours makes are ignored") {
  family f;
  f.ticks(5);
  const auto heard = [&](power_report r) { return f.parent.hear(0, r, f.now_ns); };
  const auto good = f.children[0].report(f.now_ns + 1, {}, 0);
  auto r = good;
  r.in_force_mw = -1;
  CHECK(heard(r) == report_verdict::impossible);
  r = good;
  r.wish_mw = std::numeric_limits<int64_t>::max();
  CHECK(heard(r) == report_verdict::impossible);
  r = good;
  r.order.sequence += 1;
  CHECK(heard(r) == report_verdict::impossible);
  CHECK(heard(good) == report_verdict::taken);
  CHECK(heard(good) == report_verdict::older);
  r = good;
  r.id.sent_ns -= 1;
  CHECK(heard(r) == report_verdict::older);
  r.id.incarnation = 2;
  CHECK(heard(r) == report_verdict::taken);
  CHECK(f.parent.incarnation(0) == 2);
  r = good;
  r.id.sent_ns += 9 * budget_second;
  CHECK(heard(r) == report_verdict::older_process);
  CHECK(f.parent.incarnation(0) == 2);
}

TEST_CASE(
    "BGT-7: budgets: a later process of a child does not at once free what the one before had") {
  family f;
  f.ticks(5);
  REQUIRE(f.caps() == mw{10'000, 90'000});
  f.children[1] = lease_policy(50'000, 2, 0);  // whose machines may still draw what they did
  f.wishes[1] = 0;
  const auto takes = static_cast<int>(f.parent.fall_ns() / budget_second);
  for (int i = 0; i < takes; ++i) {
    f.tick();
    CHECK(f.parent.counted_mw(1) == 90'000);
    CHECK(f.caps()[0] == 10'000);
  }
  f.ticks(4);
  CHECK(f.caps() == mw{90'000, 10'000});
  f.children[1] = lease_policy(50'000, 3, 0);
  f.wishes[1] = 90'000;
  f.ticks(6);
  CHECK(f.caps() == mw{10'000, 90'000});  // what nobody draws is granted meanwhile
}

TEST_CASE(
    "BGT-7: budgets: the older of two processes is let in again once the later one has ended") {
  family f;
  f.ticks(5);
  auto older = f.children[1];
  f.children[1] = lease_policy(50'000, 2, 0);
  f.tick();
  REQUIRE(f.parent.incarnation(1) == 2);
  f.speaks[1] = false;
  const auto heard = [&] { return f.parent.hear(1, older.report(f.now_ns, {}, 90'000), f.now_ns); };
  for (int64_t waited = 0; waited <= f.parent.fall_ns(); waited += budget_second) {
    CHECK(heard() == report_verdict::older_process);  // the later one may still draw
    f.tick();
  }
  const auto counted = f.parent.counted_mw(1);
  CHECK(heard() == report_verdict::taken);
  CHECK(f.parent.incarnation(1) == 1);
  f.children[1] = older;
  f.speaks[1] = true;
  f.wishes[1] = 20'000;
  for (int i = 0; i < 40; ++i) {
    f.tick();
    CHECK(f.parent.counted_mw(1) == counted);  // silence does not say that nothing draws
  }
  CHECK(f.children[1].is_leased(f.now_ns));
  f.children[1] = lease_policy(50'000, 3, 0);
  f.ticks(20);
  CHECK(f.parent.counted_mw(1) == 20'000);
}

TEST_CASE(
    "budgets: leases are renewed each third of their time, and none outlasts its parent's own") {
  family f;
  f.ticks(20);
  int grants = 0;
  for (int i = 0; i < 9; ++i) {
    f.tick();
    for (const auto& g : f.last.grants) grants += g.child == 0;
  }
  CHECK(grants == 3);
  f.own.left_ns = 2 * budget_second;
  f.ticks(9);
  CHECK(f.children[0].left_ns(f.now_ns) <= 2 * budget_second);
  f.own.left_ns = 0;
  f.ticks(3);
  CHECK(!f.children[0].is_leased(f.now_ns));
}

TEST_CASE("PWR-1: budgets: who draws above its cap by three readings counts at what it draws") {
  family f;
  f.wishes = {40'000, 60'000};
  f.ticks(5);
  REQUIRE(f.caps() == mw{40'000, 60'000});
  f.wishes[1] = 100'000;
  f.wishes[0] = 20'000;
  f.ticks(3);
  REQUIRE(f.caps() == mw{10'000, 90'000});
  f.wishes = {30'000, 70'000};
  f.draws[1] = 90'000;
  f.ticks(4);  // cut just now: it may still draw what it had
  CHECK(!f.parent.is_unruly(1));
  f.ticks(2);  // by two readings it draws more than it may
  CHECK(!f.parent.is_unruly(1));
  f.tick();
  CHECK(f.parent.is_unruly(1));
  CHECK(f.parent.counted_mw(1) == 90'000);
  CHECK(f.caps() == mw{10'000, 50'000});  // the others are cut, and it has no claim any more
  f.draws[1] = 40'000;
  f.ticks(6);
  CHECK(!f.parent.is_unruly(1));
  CHECK(f.caps() == mw{30'000, 70'000});
}

TEST_CASE("PWR-1: budgets: an unruly child that is measured no more counts at what was measured") {
  family f;
  f.wishes = {100'000, 40'000};
  f.ticks(5);
  REQUIRE(f.caps() == mw{60'000, 40'000});
  f.draws[1] = 90'000;
  f.ticks(6);
  REQUIRE(f.parent.is_unruly(1));
  REQUIRE(f.caps() == mw{10'000, 40'000});
  f.draws[1].reset();
  f.ticks(20);
  CHECK(f.parent.is_unruly(1));
  CHECK(f.parent.counted_mw(1) == 90'000);
  CHECK(f.caps() == mw{10'000, 40'000});
  f.draws[1] = 40'000;
  f.ticks(5);
  CHECK(!f.parent.is_unruly(1));
}

TEST_CASE(
    "BGT-5: budgets: who draws above its cap without work is made room for, and works again") {
  family f;
  f.own.cap_mw = 70'000;
  f.wishes = {100'000, 0};
  f.ticks(5);
  REQUIRE(f.caps() == mw{60'000, 10'000});
  f.works[1] = false;
  f.draws[1] = 40'000;
  f.ticks(3);
  CHECK(!f.parent.is_unruly(1));
  CHECK(f.parent.counted_mw(1) >= 40'000);
  f.ticks(3);
  CHECK(f.caps() == mw{21'000, 49'000});  // what is 9 W above pausing is 9 above its idle draw
  f.works[1] = true;
  f.draws[1] = 48'000;
  f.ticks(20);
  CHECK(!f.parent.is_unruly(1));
  CHECK(f.caps() == mw{21'000, 49'000});
  f.draws[1] = 5000;  // so it draws less by itself, and is cut to what it asks for
  f.ticks(6);
  CHECK(f.caps() == mw{56'000, 14'000});
}

TEST_CASE(
    "BGT-5: budgets: what is drawn under a brake is no idle draw, and nobody is unruly by it") {
  family f;
  f.own.cap_mw = 70'000;
  f.wishes = {100'000, 0};
  f.ticks(5);
  REQUIRE(f.caps() == mw{60'000, 10'000});
  f.works[1] = false;
  f.held[1] = true;
  f.draws[1] = 40'000;  // operations of many seconds that still end
  f.ticks(6);
  CHECK(!f.parent.is_unruly(1));
  CHECK(f.parent.counted_mw(1) >= 40'000);
  CHECK(f.caps()[1] == 10'000);
  f.held[1] = false;
  f.ticks(6);
  CHECK(f.caps() == mw{21'000, 49'000});  // it goes on, and so it is idle draw
}

TEST_CASE("budgets: who follows its cap a tick late is not unruly while that falls") {
  family f;
  f.ticks(5);
  int64_t before_mw = 90'000;
  for (int i = 1; i <= 8; ++i) {
    f.wishes[1] = 90'000 - 10'000 * i;
    f.draws[1] = before_mw;
    before_mw = f.children[1].cap_mw();
    f.tick();
    CHECK(!f.parent.is_unruly(1));
  }
}

TEST_CASE(
    "budgets: below the floors low priority is told to pause, and is told no more above them") {
  family f;
  f.ticks(5);
  f.own.cap_mw = 15'000;
  f.ticks(4);
  CHECK(f.last.short_of_floors);
  CHECK(f.children[0].is_shed());
  CHECK(!f.children[1].is_shed());
  CHECK(f.caps() == mw{1000, 14'000});
  f.own.cap_mw = 100'000;
  f.ticks(4);
  CHECK(!f.children[0].is_shed());
  CHECK(f.caps() == mw{10'000, 90'000});
}

TEST_CASE(
    "budgets: in shares the brake is for draws above what is in force, not for a cap that falls") {
  family f;
  f.ticks(5);
  f.draws = {10'000, 85'000};
  f.own.cap_mw = 60'000;
  f.tick();
  f.draws = {10'000, 50'000};  // all have acked less
  f.ticks(40);
  CHECK(f.parent.row().brakes == 0);

  family g;
  g.ticks(5);
  g.obeys = {false, false};
  g.draws = {10'000, 85'000};
  g.own.cap_mw = 60'000;
  g.ticks(14);
  CHECK(g.parent.row().brake == row_brake::off);
  g.tick();  // nobody has come down within the time that it takes, by a window
  CHECK(g.parent.row().brake == row_brake::on);
}

TEST_CASE("BGT-2: budgets: thresholds promise more than there is, by the clocks of each class") {
  family f(budget_mode::thresholds);
  f.ticks(4);
  CHECK(f.caps() == mw{100'000, 100'000});
  CHECK(f.last.thresholds_stand);
  f.seen.drawn_mw = 90'000;
  f.tick();
  CHECK(f.last.row.lp_mhz == 1110);
  CHECK(f.children[0].cap_mw() == doctest::Approx(80'000).epsilon(0.01));  // brief of POLCA: -20 %
  CHECK(f.children[1].cap_mw() == 100'000);
}

TEST_CASE("BGT-2: budgets: thresholds do not stand before there was a reading") {
  family f(budget_mode::thresholds);
  f.seen.drawn_mw.reset();
  for (int i = 0; i < 5; ++i) {
    f.tick();
    CHECK(!f.last.thresholds_stand);
    CHECK(f.caps() == mw{50'000, 50'000});
  }
  f.seen.drawn_mw = 50'000;
  f.tick();
  CHECK(f.last.thresholds_stand);
}

TEST_CASE("BGT-2: budgets: thresholds end with telemetry, the own lease or the brake's readiness") {
  for (const int what : {0, 1, 2}) {
    CAPTURE(what);
    family f(budget_mode::thresholds);
    f.ticks(4);
    REQUIRE(f.caps() == mw{100'000, 100'000});
    if (what == 0) f.seen.drawn_mw.reset();
    if (what == 1) f.own.leased = false;
    if (what == 2) f.seen.brake_armed = false;
    f.ticks(what == 0 ? 2 : 0);
    CHECK(f.caps() == mw{100'000, 100'000});
    f.tick();
    CHECK(!f.last.thresholds_stand);
    CHECK(f.caps() == mw{50'000, 50'000});
    f.seen = {50'000, true};
    f.own.leased = true;
    f.ticks(3);
    CHECK(f.last.thresholds_stand);
    CHECK(f.caps()[1] == 100'000);  // the low one's clock is the row's to undo
  }
}

TEST_CASE("PWR-2: budgets: children of a node that has died fall to their static shares in time") {
  for (const auto mode : {budget_mode::shares, budget_mode::thresholds}) {
    family f(mode);
    f.ticks(20);
    f.speaks = {false, false};
    f.ticks(10);  // ttl and a tick
    for (const auto& c : f.children) CHECK(c.cap_mw() <= 50'000);
  }
}

TEST_CASE("BGT-3: budgets: changes that nobody acks are bounded, and count at the most of them") {
  family f;
  f.ticks(5);
  REQUIRE(f.caps() == mw{10'000, 90'000});
  f.obeys[1] = false;
  for (int i = 0; i < 50; ++i) {
    f.wishes[1] = i % 2 == 0 ? 20'000 : 60'000;
    f.now_ns += 1;
    f.parent.tick(f.own, f.seen, f.now_ns);
  }
  CHECK(f.parent.counted_mw(1) == 90'000);
  f.obeys[1] = true;
  f.wishes[1] = 20'000;
  f.ticks(3);
  CHECK(f.parent.counted_mw(1) == 20'000);
  CHECK(f.caps() == mw{80'000, 20'000});
}

TEST_CASE("budgets: a cap that would change by less than noise stays, unless there is too little") {
  family f;
  f.rules.noise_mw = 2000;
  f.new_parent(2);
  f.wishes = {60'000, 40'000};
  f.ticks(5);
  REQUIRE(f.caps() == mw{60'000, 40'000});
  f.wishes = {61'000, 39'000};
  f.ticks(3);
  CHECK(f.caps() == mw{60'000, 40'000});
  f.own.cap_mw = 99'500;
  f.ticks(3);
  CHECK(f.children[0].cap_mw() + f.children[1].cap_mw() <= 99'500);
}

TEST_CASE("budgets: terms that cannot be kept are refused with what was found") {
  const family f;
  const auto refused = [](const budget_rules& r, const std::vector<budget_child>& c, int64_t mw) {
    const auto s = check(r, c, mw);
    return !s && s.error().code == errc::bad_config && !s.error().hint.empty();
  };
  CHECK(check(f.rules, f.terms, 100'000));
  CHECK(refused(f.rules, f.terms, 99'999));
  auto r = f.rules;
  r.ttl_ns = 2 * budget_second;
  CHECK(refused(r, f.terms, 100'000));
  for (auto member : {&budget_child::floor_mw, &budget_child::static_share_mw,
                      &budget_child::paused_mw, &budget_child::idle_mw}) {
    auto terms = f.terms;
    terms[1].*member = 100'001;
    CHECK(refused(f.rules, terms, 1'000'000));
    terms[1].*member = -1;
    CHECK(refused(f.rules, terms, 1'000'000));
  }
  constexpr int64_t far = std::numeric_limits<int64_t>::max();
  for (const auto remembered : {int64_t{-1}, far}) {
    auto terms = f.terms;
    terms[0].remembered_mw = remembered;
    CHECK(refused(f.rules, terms, 100'000));
  }
  for (auto member : {&budget_rules::tick_ns, &budget_rules::ttl_ns, &budget_rules::actuation_ns,
                      &budget_rules::noise_mw})
    for (const auto value : {int64_t{-1}, far}) {
      r = f.rules;
      r.*member = value;
      CHECK(refused(r, f.terms, 100'000));
    }
  for (const int ticks : {0, 17}) {
    r = f.rules;
    r.unruly_ticks = ticks;
    CHECK(refused(r, f.terms, 100'000));
  }
  CHECK(refused(f.rules, f.terms, far));
  const std::vector<budget_child> many(20'000,
                                       {power_class::low, 0, 0, 1'000'000'000'000'000, 0, 0});
  CHECK(refused(f.rules, many, 0));
}
