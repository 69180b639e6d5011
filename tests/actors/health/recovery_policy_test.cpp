// What a recovery can mend, and how often one may begin.
#include "actors/health/recovery_policy.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/errors.hpp"

using namespace troupe;
using config::recovery_action, config::recovery_rule;
using troupe::health::recovery_decision, troupe::health::recovery_policy;
using enum health::finding_name;

namespace {

constexpr int64_t second_ns = 1'000'000'000, minute_ns = 60 * second_ns;

recovery_policy begun(bool enabled, int64_t most_per_hour = 10) {
  config::recovery_section rules;
  rules.enabled = enabled;
  rules.most_per_hour = most_per_hour;
  recovery_policy p(rules);
  p.has_begun();
  return p;
}

}  // namespace

// A process in whose place another one came may hold its memory a little longer.
TEST_CASE("RCV-3: recovery: what a new epoch can mend, and what it cannot") {
  const auto on = begun(true), off = begun(false);
  for (int c = 1; c <= static_cast<int>(errc::training); ++c) {
    const error why{static_cast<errc>(c), "something"};
    CAPTURE(c);
    CHECK_FALSE(off.can_mend(why));
    CHECK(on.can_mend(why) == (why.code == errc::unavailable || why.code == errc::timeout ||
                               why.code == errc::io || why.code == errc::no_memory));
  }
}

TEST_CASE("RCV-2: recovery: before the first step there is nothing to recover") {
  recovery_policy p{config::recovery_section{.enabled = true}};
  CHECK_FALSE(p.can_mend({errc::unavailable, "gone"}));
  p.has_begun();
  CHECK(p.can_mend({errc::unavailable, "gone"}));
}

TEST_CASE("RCV-1: recovery: only so many begin within an hour, whenever that hour begins") {
  auto p = begun(true, 2);
  const auto take = [&](int64_t minute) {
    p.has_progressed();
    return bool(p.take(dead_process, "n0", minute * minute_ns));
  };
  CHECK(take(10));
  CHECK(take(50));
  CHECK_FALSE(take(69));
  CHECK(take(70));  // the first is an hour old
  CHECK_FALSE(take(109));
  CHECK(take(110));
  CHECK(p.begun() == 4);
}

TEST_CASE("RCV-4: recovery: three over the same that come to no step are the last ones") {
  for (const auto* node : {"n1", ""}) {
    auto p = begun(true);
    for (int hour = 0; hour < 3; ++hour) CHECK(p.take(dead_process, node, hour * 90 * minute_ns));
    auto stuck = p;
    const auto none_left = stuck.take(dead_process, node, 1000 * minute_ns);
    const std::string of = *node == 0 ? "" : " of node n1";
    REQUIRE_FALSE(none_left);
    CHECK(none_left.error() == health::recoveries_in_vain(3, of));
    // A loss of another one is no repetition.
    CHECK(stuck.take(dead_process, "n2", 1000 * minute_ns));
    p.has_progressed();
    CHECK(p.take(dead_process, node, 1000 * minute_ns));
  }
}

TEST_CASE("RCV-6: recovery: each finding has one outcome, whatever the action of its rule") {
  for (size_t i = 0; i < health::finding_table.size(); ++i) {
    const auto finding = static_cast<health::finding_name>(i);
    const bool acted = std::find(config::acted_on.begin(), config::acted_on.end(), finding) !=
                       config::acted_on.end();
    CAPTURE(health::finding_table[i].name);
    auto standard = begun(true);
    const auto done = standard.take(finding, "n1", 0);
    REQUIRE(bool(done) == acted);  // the job is told of no other one
    if (!acted) {
      CHECK(done.error() == health::rules_used_up(health::finding_table[i].name));
      continue;
    }
    CHECK(done->action == recovery_action::restart);
    CHECK(done->times_left == -1);
    for (const auto action :
         {recovery_action::restart, recovery_action::hold, recovery_action::end}) {
      config::recovery_section section;
      section.rule = {{.finding = finding, .action = action, .times = 1}};
      recovery_policy own(section);
      CHECK(*own.take(finding, "n1", 0) == recovery_decision{action, 1, 0});
      CHECK(own.begun() == (action == recovery_action::end ? 0 : 1));
    }
  }
}

TEST_CASE("RCV-5: recovery: a rule whose budget is used up gives way to the next of its finding") {
  config::recovery_section section;
  section.rule = {{dead_process, recovery_action::restart, 60, 2},
                  {stuck_device, recovery_action::end, 60, 0},
                  {dead_process, recovery_action::hold, 60, 1}};
  recovery_policy p(section);
  const auto take = [&](health::finding_name finding, int64_t second) {
    p.has_progressed();
    return p.take(finding, "n1", second * second_ns);
  };
  CHECK(*take(dead_process, 0) == recovery_decision{recovery_action::restart, 1, 1});
  CHECK(*take(dead_process, 30) == recovery_decision{recovery_action::restart, 1, 0});
  CHECK(*take(dead_process, 59) == recovery_decision{recovery_action::hold, 3, 0});
  CHECK(take(dead_process, 59).error() == health::rules_used_up("dead_process"));
  CHECK(*take(stuck_device, 59) == recovery_decision{recovery_action::end, 2, -1});
  CHECK(*take(dead_process, 60) == recovery_decision{recovery_action::restart, 1, 0});
  CHECK(p.begun() == 4);
}

TEST_CASE("RCV-5: recovery: what is not begun uses up no rule, and the hour bounds all rules") {
  config::recovery_section section;
  section.most_per_hour = 1;
  section.rule = {{dead_process, recovery_action::restart, 3600, 2},
                  {dead_process, recovery_action::end, 3600, 0}};
  recovery_policy p(section);
  CHECK(p.take(dead_process, "n1", 0)->times_left == 1);
  CHECK(p.take(dead_process, "n1", second_ns).error() == health::recoveries_used_up(1));
  CHECK(p.take(dead_process, "n1", 60 * minute_ns)->rule == 1);
}

TEST_CASE("recovery: budgets go on where another one left them") {
  config::recovery_section rules;
  rules.enabled = true;
  rules.most_per_hour = 3;
  rules.rule = {recovery_rule{dead_process, recovery_action::restart, 60, 1},
                recovery_rule{dead_process, recovery_action::hold, 600, 2}};
  recovery_policy before(rules), after(rules);
  const auto rule_of = [](recovery_policy& p, int64_t s) {
    const auto taken = p.take(dead_process, "n", s * second_ns);
    p.has_progressed();
    return taken ? taken->rule : 0;
  };
  CHECK(rule_of(before, 10) == 1);
  CHECK(rule_of(before, 11) == 2);
  before.take_ordered();
  after.remember(before.made());
  CHECK(after.made() == before.made());
  CHECK(after.begun() == 3);
  auto other = after;
  CHECK(rule_of(after, 12) == 2);
  CHECK(rule_of(after, 200) == 0);  // three within the hour
  CHECK(rule_of(other, 71) == 1);   // its minute is over
}
