// What children have measured of their actuators, as a budget takes it: believed, shown, and of no
// number that is none.
#include <doctest/doctest.h>

#include "tests/actors/power/budget_family.hpp"
#include "tests/actors/power/scripted_budget.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

struct measured_budget : scripted_budget {
  errc reports_actuation(int64_t ms, int64_t sent_ns) {
    const auto& box = children[1].box;
    const auto asked = box.ask(target, make<fbs::PowerReport>([&](fbs::PowerReportT& m) {
                                 m.incarnation = 1;
                                 m.sent_ns = sent_ns;
                                 m.drawn_mw = 10'000;
                                 m.actuation_ms = ms;
                               }));
    pass(1s);
    return refusal_of(box, asked);
  }
  int64_t shown_ms() const { return tree().children[1]->actuation_ms; }
};

}  // namespace

TEST_CASE("budget: how long a cap takes at a child is shown as that has measured it") {
  measured_budget f;
  CHECK(f.shown_ms() == -1);
  CHECK(f.reports_actuation(1250, 1) == errc::none);
  CHECK(f.shown_ms() == 1250);
  CHECK(f.tree().children[0]->actuation_ms == -1);
  CHECK(f.reports_actuation(0, 2) == errc::none);
  CHECK(f.shown_ms() == 0);
  CHECK(f.reports_actuation(-1, 3) == errc::none);
  CHECK(f.shown_ms() == -1);
}

TEST_CASE("budget: a time that no cap takes is refused, with the whole report") {
  measured_budget f;
  CHECK(f.reports_actuation(86'400'001, 1) == errc::bad_data);
  CHECK(f.reports_actuation(-2, 2) == errc::bad_data);
  CHECK(f.reports_actuation(INT64_MAX, 3) == errc::bad_data);
  CHECK(f.reports_actuation(INT64_MIN, 4) == errc::bad_data);
  CHECK(!f.tree().children[1]->heard);
  CHECK(f.reports_actuation(86'400'000, 5) == errc::none);
}

TEST_CASE("STH-2: budget: by what children measure rises count within a longer time") {
  budget_rules rules;
  rules.row = rules_of(row_rule::polca, {}, 2'000'000'000, 1'000'000'000);
  budget_policy policy(rules, {budget_child{}}, 1, 0);
  const auto assumed_ns = policy.safe().p99_ns();
  int64_t sent_ns = 0;
  const auto acts_within = [&](int64_t ns) {
    power_report told;
    told.id = {1, ++sent_ns};
    told.actuation_ns = ns;
    CHECK(policy.hear(0, told, sent_ns) == report_verdict::taken);
  };
  acts_within(assumed_ns / 2);
  CHECK(policy.safe().p99_ns() == assumed_ns);
  acts_within(assumed_ns * 10);
  CHECK(policy.safe().p99_ns() == assumed_ns * 10);
  acts_within(assumed_ns);
  CHECK(policy.safe().p99_ns() == assumed_ns * 10);  // what was measured is not taken back
}

TEST_CASE("BGT-12: budget: a child whose caps take long is waited for so long, and no other") {
  family f;
  const auto by_rules_ns = f.parent.fall_ns();
  f.acts_ns = {budget_second, 5 * budget_second};
  f.tick();
  CHECK(f.parent.fall_ns(0) == by_rules_ns);  // which say 2 s
  CHECK(f.parent.fall_ns(1) == by_rules_ns + 3 * budget_second);
  CHECK(f.parent.fall_ns() == by_rules_ns + 3 * budget_second);
  f.acts_ns = {0, budget_second};
  f.tick();
  CHECK(f.parent.fall_ns(1) == by_rules_ns + 3 * budget_second);
  f.acts_ns[0] = 3600 * budget_second;
  f.tick();
  CHECK(f.parent.fall_ns(1) == by_rules_ns + 3 * budget_second);
  CHECK(f.parent.fall_ns() == 2 * f.rules.ttl_ns + f.rules.tick_ns);
}

TEST_CASE("BGT-7, BGT-12: budget: what a process before had is counted as long as its caps take") {
  family f;
  f.acts_ns[1] = 5 * budget_second;
  f.ticks(5);
  REQUIRE(f.caps() == std::vector<int64_t>{10'000, 90'000});
  f.children[1] = lease_policy(50'000, 2, 0);  // whose machines may still draw what they did
  f.wishes[1] = 0;
  const auto takes = static_cast<int>(f.parent.fall_ns(1) / budget_second);
  REQUIRE(takes == 9 + 1 + 5);
  for (int i = 0; i < takes; ++i) {
    f.tick();
    CHECK(f.parent.counted_mw(1) == 90'000);
    CHECK(f.caps()[0] == 10'000);
  }
  f.ticks(4);
  CHECK(f.caps() == std::vector<int64_t>{90'000, 10'000});
}

TEST_CASE(
    "BGT-1, BGT-12: budget: a restarted parent waits for who is heard and has acked nothing") {
  family f;
  f.ticks(5);
  f.wishes = {100'000, 0};
  f.acts_ns[1] = 5 * budget_second;
  f.hears[1] = false;  // it goes on by the lease of the parent before, and then falls
  f.new_parent(2);
  const auto by_rules = static_cast<int>(f.parent.fall_ns() / budget_second);
  f.ticks(by_rules + 2);
  CHECK(!f.parent.knows(f.now_ns));
  CHECK(f.caps()[0] == 10'000);
  f.tick();
  CHECK(f.parent.knows(f.now_ns));
  f.acts_ns[1] = 100 * budget_second;
  f.tick();
  CHECK(f.parent.knows(f.now_ns));  // what is known stays so
  CHECK(f.caps()[0] == 10'000);     // it may still come to follow what it was granted
  f.hears[1] = true;
  f.ticks(5);
  CHECK(f.caps()[0] > 10'000);
}

TEST_CASE(
    "BGT-1, BGT-12: budget: whoever needs an hour keeps the others from what it may draw alone") {
  family f;
  f.terms = {{power_class::low, 10'000, 40'000, 100'000, 1000, 10'000},
             {power_class::high, 10'000, 20'000, 40'000, 1000, 10'000}};
  f.children = {lease_policy(40'000, 1, 40'000), lease_policy(20'000, 1, 20'000)};
  f.wishes = {100'000, 0};
  f.acts_ns[1] = 3600 * budget_second;
  f.hears[1] = false;  // it may follow what a parent before has granted, and acks nothing
  f.new_parent(2);
  const auto waits = static_cast<int>((2 * f.rules.ttl_ns + f.rules.tick_ns) / budget_second);
  f.ticks(waits - 1);
  CHECK_FALSE(f.parent.knows(f.now_ns));
  CHECK(f.caps()[0] == 40'000);
  f.ticks(2);
  CHECK(f.parent.knows(f.now_ns));
  CHECK(f.caps()[0] == 60'000);  // beside 40 W, which the other may draw
  f.ticks(3500);
  CHECK(f.caps()[0] == 60'000);
  f.ticks(120);
  CHECK(f.caps()[0] == 80'000);  // it has fallen to its static share
}
