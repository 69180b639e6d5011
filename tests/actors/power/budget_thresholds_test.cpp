// A budget that promises more than it has: what its classes may have, by paces, and what its
// persons are told of that.
#include <doctest/doctest.h>

#include "tests/actors/power/scripted_budget.hpp"

using namespace troupe;
using namespace troupe::power;
using troupe::test::scripted_budget;

namespace {

/// 70 W, POLCA, and two jobs of 70 W each that have a pace and no clocks.
struct row_with_paces : scripted_budget {
  row_with_paces() {
    auto terms_of_row = options(2, 70'000);
    auto& r = terms_of_row.rules;
    r.mode = budget_mode::thresholds;
    r.clock_exponent = 1;
    r.row = rules_of(row_rule::polca, r.thresholds, 2 * second_ns, second_ns);
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
