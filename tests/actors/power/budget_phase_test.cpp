// A budget whose children's steps are shifted against each other: by whose leave, by which answer,
// and what is written down and shown of it.
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/actors/power/scripted_budget.hpp"

using namespace troupe;
using namespace troupe::power;
using troupe::test::scripted_budget;

namespace {

/// Children that make a step a second, and do what they are told.
struct shifting_budget : scripted_budget {
  static constexpr int64_t step_ns = second_ns;

  std::vector<int64_t> began_ns{0, 0};
  std::set<std::pair<size_t, uint64_t>> told;  ///< child and number
  std::vector<fbs::PowerGrantT> orders;        ///< each one once

  explicit shifting_budget(bool first = true, bool second = true, bool dry_run = false) {
    terms[0].shifts = first;
    terms[1].shifts = second;
    auto o = options(2, 70'000);
    o.dry_run = dry_run;
    target = spawn(power::budget, o);
  }

  void step_second() {
    for (size_t i = 0; i < children.size(); ++i) {
      auto& c = children[i];
      c.lease.read_back(c.lease.tick(now_ns()));
      const auto r = c.lease.report(now_ns(), c.drawn_mw, c.wish_mw);
      c.asked = c.box.ask(target, make<fbs::PowerReport>([&](fbs::PowerReportT& m) {
                            m.incarnation = r.id.incarnation;
                            m.sent_ns = r.id.sent_ns;
                            m.lease_epoch = r.order.epoch;
                            m.lease_sequence = r.order.sequence;
                            m.in_force_mw = r.in_force_mw;
                            m.wish_mw = r.wish_mw;
                            m.pace_of_1024 = 1024;
                            m.step_us = step_ns / 1000;
                            m.step_age_us =
                                static_cast<uint64_t>((now_ns() - began_ns[i]) % step_ns / 1000);
                          }));
    }
    pass(std::chrono::seconds(1));
    for (size_t i = 0; i < children.size(); ++i) {
      const auto grant = answer_to(children[i]);
      children[i].take(grant, now_ns());
      if (grant.start_offset_us == 0 || !told.insert({i, grant.offset_number}).second) continue;
      orders.push_back(grant);
      began_ns[i] += static_cast<int64_t>(grant.start_offset_us) * 1000;
    }
  }
  void step_seconds(int n) {
    for (int i = 0; i < n; ++i) step_second();
  }
};

}  // namespace

TEST_CASE("BGA-11: budget: children that step together are shifted once, by an answer") {
  shifting_budget f;
  f.step_seconds(25);
  CHECK(f.orders.empty());
  f.step_seconds(25);
  REQUIRE(f.orders.size() == 1);
  CHECK(static_cast<double>(f.orders[0].start_offset_us) == doctest::Approx(500'000));
  CHECK(f.orders[0].offset_number == 1);
  CHECK(f.orders[0].offset_epoch == 2);
  CHECK(f.told.begin()->first == 1);
  f.step_seconds(90);
  CHECK(f.orders.size() == 1);
  const auto lines = f.events("shifted");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["child"] == "gpt-b");
  CHECK(lines[0]["offset_ms"].get<double>() == doctest::Approx(500));
  CHECK(lines[0]["step_ms"] == 1000);
  const auto tree = f.tree();
  CHECK(tree.children[0]->start_offset_us == 0);
  CHECK(tree.children[0]->offset_age_ms == -1);
  CHECK(tree.children[0]->step_us == 1'000'000);
  CHECK(tree.children[1]->start_offset_us == f.orders[0].start_offset_us);
  CHECK(tree.children[1]->offset_age_ms > 80'000);
}

TEST_CASE("BGA-11: budget: only who may be is shifted, and nobody in a dry run") {
  for (const bool dry_run : {false, true}) {
    CAPTURE(dry_run);
    shifting_budget f(true, dry_run, dry_run);
    f.step_seconds(60);
    CHECK(f.orders.empty());
    CHECK(f.events("shifted").empty());
    CHECK(f.tree().children[1]->start_offset_us == 0);
  }
}

TEST_CASE("PHS-4: budget: while a brake is on nobody is shifted, and settling begins anew") {
  shifting_budget f;
  f.step_seconds(20);
  CHECK(f.brake(true));
  f.step_seconds(60);
  CHECK(f.orders.empty());
  CHECK(f.brake(false));
  f.step_seconds(25);
  CHECK(f.orders.empty());
  f.step_seconds(25);
  CHECK(f.orders.size() == 1);
}
