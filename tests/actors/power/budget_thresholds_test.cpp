// A budget that promises more than it has: what its classes may have, by paces, and what its
// persons are told of that.
#include <vector>

#include <doctest/doctest.h>

#include "tests/actors/power/scripted_budget.hpp"

using namespace troupe;
using namespace troupe::power;
using troupe::test::scripted_budget;

namespace {

/// 70 W, POLCA, and two jobs of 70 W each that have a pace and no clocks.
struct row_with_paces : scripted_budget {
  std::vector<budget_trace_row> traced;

  row_with_paces() {
    auto terms_of_row = options(2, 70'000);
    auto& r = terms_of_row.rules;
    r.mode = budget_mode::thresholds;
    r.clock_exponent = 1;
    r.row = rules_of(row_rule::polca, r.thresholds, 2 * second_ns, second_ns);
    terms_of_row.trace = [this](const budget_trace_row& row) { traced.push_back(row); };
    target = spawn(power::budget, terms_of_row);
    for (auto& c : children) c.armed = true;
    draw(20'000);
    seconds(6);
  }
  void draw(int64_t each_mw) {
    for (auto& c : children) c.drawn_mw = each_mw;
  }
};

}  // namespace

TEST_CASE("BGT-2: budget: in thresholds each class has its clock's part of what is above idle") {
  row_with_paces f;
  REQUIRE(f.caps() == std::vector<int64_t>{70'000, 70'000});
  auto tree = f.tree();
  CHECK(tree.thresholds_stand);
  CHECK(tree.t1 == 0.80);
  CHECK(tree.t2 == 0.89);
  CHECK(tree.low_share == 1);
  f.draw(32'000);  // 91 %
  f.second();
  CHECK(f.caps() == std::vector<int64_t>{56'170, 70'000});  // 1110 of 1410 MHz, 5 W idle
  f.seconds(5);
  CHECK(f.caps() == std::vector<int64_t>{56'170, 65'160});  // and 1305 once that has settled
  tree = f.tree();
  CHECK(tree.low_share == doctest::Approx(1110.0 / 1410));
  CHECK(tree.high_share == doctest::Approx(1305.0 / 1410));
}

TEST_CASE("budget: in thresholds it is told for how long classes were capped, and T2 exceeded") {
  row_with_paces f;
  auto tree = f.tree();
  CHECK(tree.low_capped_ms == 0);
  CHECK(tree.over_t2_ms == -1);
  CHECK(tree.energy_j == doctest::Approx(40 * 5));  // five seconds between six ticks
  f.draw(32'000);                                   // 91 %
  f.seconds(3);
  tree = f.tree();
  CHECK(tree.low_capped_ms == 2000);
  CHECK(tree.high_capped_ms == 0);
  CHECK(tree.over_t2_ms == 2000);
  CHECK(tree.over_t2_since == "noon");
  CHECK(tree.brakes == 0);
  f.draw(20'000);
  f.second();
  tree = f.tree();
  CHECK(tree.low_capped_ms == 3000);
  CHECK(tree.over_t2_ms == -1);
  CHECK(tree.over_t2_since.empty());
  f.draw(40'000);
  f.seconds(2);
  tree = f.tree();
  REQUIRE(tree.brake_pulled);
  CHECK(tree.brakes == 1);
  CHECK(tree.braked_ms == 1000);
}

TEST_CASE("BJN-1: budget: rungs that are taken and undone are in the journal, with what for") {
  row_with_paces f;
  CHECK(f.events("rung_taken").empty());
  f.draw(32'000);  // 91 %
  f.seconds(2);
  REQUIRE(f.events("rung_taken").size() == 1);
  const auto first = f.events("rung_taken")[0];
  CHECK(first.at("rule") == "above");
  CHECK(first.at("were") == 0);
  CHECK(first.at("rungs") == 2);
  CHECK(first.at("drawn_w").get<double>() == 64);
  CHECK(first.at("budget_w").get<double>() == 70);
  CHECK(first.at("marks") == std::vector<double>{0.80, 0.89});
  CHECK(first.at("low_share").get<double>() == doctest::Approx(1110.0 / 1410));
  CHECK(first.at("high_share") == 1);
  CHECK(first.at("unruly") == false);
  f.seconds(4);
  REQUIRE(f.events("rung_taken").size() == 2);
  CHECK(f.events("rung_taken")[1].at("rungs") == 3);
  f.draw(20'000);
  f.seconds(20);
  const auto undone = f.events("rung_undone");
  REQUIRE(!undone.empty());
  CHECK(undone[0].at("rule") == "below");
  CHECK(undone[0].at("were") == 3);
  CHECK(undone.back().at("rungs") == 0);
}

TEST_CASE("budget: each tick in which all is known has a row of numbers in its trace") {
  row_with_paces f;
  const auto known = f.traced.size();
  CHECK(known == 6);
  f.draw(32'000);
  f.second();
  REQUIRE(f.traced.size() == known + 1);
  const auto& row = f.traced.back();
  CHECK(row.watts == 64);
  CHECK(row.budget_w == 70);
  CHECK(row.counted_w >= 100);
  CHECK(row.t1 == 0.80);
  CHECK(row.t2 == 0.89);
  CHECK(row.t3 == 0);
  CHECK(row.low == doctest::Approx(56.17 / 70));
  CHECK(row.high == 1);
  CHECK(row.brake == trace_brake::off);
  f.draw(40'000);
  f.seconds(2);
  CHECK(f.traced.back().brake == trace_brake::pulled);
  CHECK(f.traced.back().brakes == 1);
  const auto all = f.traced.size();
  f.children[1].drawn_mw.reset();
  f.seconds(3);
  CHECK(f.traced.size() <= all + 1);  // what it said just now may still stand
}

TEST_CASE("STH-1: budget: a T2 that is not safe is said, with the one that is") {
  row_with_paces f;
  CHECK(f.tree().safe_t2 == doctest::Approx(1));
  CHECK(f.events("unsafe_t2").empty());
  f.draw(30'000);  // from 57 to 86 %, before a cap could bind
  f.seconds(3);
  REQUIRE(f.events("unsafe_t2").size() == 1);
  CHECK(f.events("unsafe_t2")[0].at("t2").get<double>() == 0.89);
  CHECK(f.events("unsafe_t2")[0].at("safe_t2").get<double>() == doctest::Approx(1 - 20.0 / 70));
  CHECK(f.tree().safe_t2 == doctest::Approx(1 - 20.0 / 70));
}

TEST_CASE("BGT-2: budget: thresholds end where one child has not been heard for three ticks") {
  row_with_paces f;
  REQUIRE(f.tree().thresholds_stand);
  f.children[1].speaks = false;
  f.seconds(6);  // its lease lasts on
  CHECK(!f.tree().thresholds_stand);
  CHECK(f.caps()[0] == 30'000);
  f.seconds(8);
  CHECK(f.caps()[1] == 30'000);             // PWR-2: by itself
  CHECK(f.events("brake_pulled").empty());  // BGT-10: what is counted for it is not read
  f.children[1].speaks = true;
  f.seconds(2);
  CHECK(f.tree().thresholds_stand);
}

TEST_CASE(
    "BGT-10: budget: in thresholds who has gone holds the others no longer than some minutes") {
  row_with_paces f;
  f.draw(40'000);
  f.seconds(2);
  REQUIRE(f.tree().brake_pulled);
  f.children[1].speaks = false;
  f.draw(5000);
  f.seconds(60);
  CHECK(f.tree().children[0]->brake);  // for what the other may draw there is no room
  f.seconds(150);
  CHECK(!f.tree().brake_pulled);
  CHECK(!f.tree().thresholds_stand);
  CHECK(f.events("brake_pulled").size() == 1);
  CHECK(f.events("brake_released").size() == 1);
}

TEST_CASE("OVL-5: budget: in thresholds, too, a wrong release holds all again within one look") {
  row_with_paces f;
  f.draw(40'000);
  f.seconds(2);
  f.children[1].speaks = false;
  f.draw(5000);
  int held = 0;
  for (; held < 300 && f.tree().brake_pulled; ++held) f.second();
  REQUIRE(!f.tree().brake_pulled);
  REQUIRE(f.set(60'000));
  f.draw(70'000);
  f.second();
  CHECK(f.tree().brake_pulled);
  CHECK(f.events("brake_pulled").size() == 2);
}
