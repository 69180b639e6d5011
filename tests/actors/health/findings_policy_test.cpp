// Findings: what holds is raised once, keeps its since, and goes; never too many.
#include "actors/health/findings_policy.hpp"

#include <set>
#include <string>

#include <doctest/doctest.h>

#include "actors/health/finding_text.hpp"
#include "tests/actors/health/seconds.hpp"

using namespace troupe::health;

namespace {

using troupe::health::test::s;

subject frozen(std::string node) {
  return {finding_name::frozen_process, std::move(node)};
}
subject slow_disk() {
  return {finding_name::disk_slow, "a"};
}
evidence seen(double x) {
  return {x, 3, "s", "it sends no heartbeats"};
}

}  // namespace

TEST_CASE("FND-1: the list of findings: 24 names, each found by its name, each with a sentence") {
  const std::set<std::string_view> fixed{
      "dead_process",     "lost_host",         "frozen_process", "half_open_link", "cut_pair",
      "stuck_collective", "stuck_device",      "lost_device",    "bad_loss",       "loss_spike",
      "wrong_bits",       "step_regression",   "straggler",      "disk_full",      "disk_slow",
      "disk_failing",     "memory_pressure",   "cpu_starved",    "clock_jump",     "log_rule",
      "device_hot",       "checkpoint_behind", "head_lost",      "slow_part"};
  std::set<std::string_view> names;
  for (size_t i = 0; i < finding_table.size(); ++i) {
    const auto& f = finding_table[i];
    CAPTURE(f.name);
    CHECK(names.insert(f.name).second);
    CHECK(find_finding(f.name) == static_cast<finding_name>(i));
    CHECK(f.about.size() > 20);
    CHECK(f.about.back() != '.');
  }
  CHECK(names == fixed);
  CHECK(facts_of(finding_name::head_lost).name == "head_lost");  // the enum's order is the table's
  CHECK(facts_of(finding_name::straggler).name == "straggler");
  CHECK_FALSE(find_finding("frozen"));
  CHECK(nearest_finding("frozen_proces") == "frozen_process");
  CHECK(nearest_finding("disk_ful") == "disk_full");
  CHECK(nearest_finding("xyzzy") == "");
}

TEST_CASE("FDG-1: a finding is raised once and keeps its since, whatever else of it changes") {
  findings_policy p;
  p.holds(frozen("a"), seen(3), 10 * s);
  auto news = p.judge(10 * s);
  REQUIRE(news.raised.size() == 1);
  CHECK(news.raised[0].since_ns == 10 * s);
  p.holds(frozen("a"), seen(4), 11 * s);
  p.holds(frozen("b"), seen(3), 11 * s);
  news = p.judge(11 * s);
  REQUIRE(news.raised.size() == 1);
  CHECK(news.raised[0].who.node == "b");
  const auto all = p.standing();
  REQUIRE(all.size() == 2);
  CHECK(all[0].who.node == "a");  // the oldest first
  CHECK(all[0].since_ns == 10 * s);
  CHECK(all[0].shown.seen == 4);
  CHECK(p.raised() == 2);
  p.gone(frozen("a"), 12 * s);
  news = p.judge(12 * s);
  REQUIRE(news.cleared.size() == 1);
  CHECK(news.cleared[0].who.node == "a");
  CHECK_FALSE(p.stands(frozen("a")));
  p.holds(frozen("a"), seen(3), 20 * s);
  CHECK(p.judge(20 * s).raised.size() == 1);  // a new one
  CHECK(p.standing()[1].since_ns == 20 * s);
}

TEST_CASE(
    "FDG-2: what comes and goes is none, and one that stands needs a while without it to go") {
  findings_policy p;
  for (int64_t t = 0; t < 100; ++t) {  // 9 s with it, 1 s without
    if (t % 10 == 9)
      p.gone(slow_disk(), t * s);
    else
      p.holds(slow_disk(), seen(900), t * s);
    CHECK(p.judge(t * s).raised.empty());
  }
  for (int64_t t = 100; t < 110; ++t) {
    p.holds(slow_disk(), seen(900), t * s);
    CHECK(p.judge(t * s).raised.empty());
  }
  p.holds(slow_disk(), seen(900), 110 * s);
  REQUIRE(p.judge(110 * s).raised.size() == 1);
  CHECK(p.standing()[0].since_ns == 100 * s);
  p.gone(slow_disk(), 120 * s);
  CHECK(p.judge(149 * s).cleared.empty());
  p.holds(slow_disk(), seen(900), 149 * s);  // back again: the same finding
  CHECK(p.judge(155 * s).raised.empty());
  CHECK(p.standing()[0].since_ns == 100 * s);
  p.gone(slow_disk(), 160 * s);
  CHECK(p.judge(189 * s).cleared.empty());
  CHECK(p.judge(190 * s).cleared.size() == 1);
  CHECK(p.standing().empty());
}

TEST_CASE("FDG-2: what has happened is raised though it is over, and stands for its while") {
  findings_policy p;
  const subject out{finding_name::memory_pressure, "a", -1, -1, "out_of_memory"};
  p.happened(out, seen(1), 10 * s);
  CHECK(p.judge(11 * s).raised.size() == 1);
  CHECK(p.standing()[0].since_ns == 10 * s);
  for (int64_t t = 12; t < 610; ++t) {  // the same of the machine itself comes and goes beside it
    p.gone({finding_name::memory_pressure, "a"}, t * s);
    CHECK(p.judge(t * s).cleared.empty());
  }
  p.happened(out, seen(2), 609 * s);
  CHECK(p.judge(1208 * s).cleared.empty());
  CHECK(p.standing()[0].shown.seen == 2);
  CHECK(p.judge(1209 * s).cleared.size() == 1);
  p.happened(out, seen(3), 1300 * s);
  CHECK(p.judge(1300 * s).raised.size() == 1);  // a new one
  CHECK(p.standing()[0].since_ns == 1300 * s);
}

TEST_CASE("FDG-2: all of a name go, but for those that still hold") {
  findings_policy p;
  for (const char* node : {"a", "b", "c"}) p.holds(frozen(node), seen(3), s);
  p.judge(s);
  p.gone_but(
      finding_name::frozen_process, [](const subject& w) { return w.node == "b"; }, 2 * s);
  CHECK(p.judge(2 * s).cleared.size() == 2);
  CHECK(p.stands(frozen("b")));
}

TEST_CASE("FDG-3: findings are bounded: what matters more takes a place, the rest is counted") {
  findings_policy p;
  for (int rank = 0; rank < 1000; ++rank) p.holds({finding_name::straggler, "a", rank}, seen(1), s);
  CHECK(p.judge(s).raised.size() == findings_policy::most_findings);
  CHECK(p.left_out() == 1000 - findings_policy::most_findings);
  p.holds(frozen("a"), seen(4), 2 * s);
  CHECK(p.judge(2 * s).raised.size() == 1);
  CHECK(p.standing().size() == findings_policy::most_findings);
  CHECK(p.standing()[0].who == frozen("a"));  // what matters most first
}

TEST_CASE("a finding is one line for a person, with its evidence") {
  CHECK(line_of(to_message({frozen("node1"), seen(4.21), 0})) ==
        "frozen_process node1: it sends no heartbeats (4.21 s, at most 3)");
  CHECK(line_of(
            to_message({{finding_name::stuck_collective, "node1", 5, 7}, {0, 0, "", "why"}, 0})) ==
        "stuck_collective rank 5 and rank 7 (node1): why");
  CHECK(line_of(to_message({{finding_name::disk_full, "a"}, {1, 2, "%", "little room"}, 0})) ==
        "disk_full a: little room (1 %, at least 2)");
  for (const auto& f : finding_table) {
    const auto m = to_message({subject{*find_finding(f.name), ""}, {}, 0});
    CHECK(troupe::fbs::EnumNameFindingSeverity(m.severity) ==
          std::string(f.matters == severity::info      ? "info"
                      : f.matters == severity::warning ? "warning"
                                                       : "error"));
  }
}
