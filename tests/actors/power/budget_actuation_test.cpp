// What children have measured of their actuators, as a budget takes it: believed, shown, and of no
// number that is none.
#include <doctest/doctest.h>

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
  policy.acts_within(assumed_ns / 2);
  CHECK(policy.safe().p99_ns() == assumed_ns);
  policy.acts_within(assumed_ns * 10);
  CHECK(policy.safe().p99_ns() == assumed_ns * 10);
  policy.acts_within(assumed_ns);
  CHECK(policy.safe().p99_ns() == assumed_ns * 10);  // what was measured is not taken back
}
