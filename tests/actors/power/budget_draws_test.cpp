// What children draw, ask for and say beyond what they may: what a node of the tree of budgets
// makes of it, and what the others have beside them.
#include <doctest/doctest.h>

#include "tests/actors/power/budget_family.hpp"

using namespace troupe::power;
using troupe::test::budget_second;
using troupe::test::family;

namespace {

using caps_of_both = std::vector<int64_t>;

}  // namespace

TEST_CASE("PWR-1: budgets: a reading or two above a cap make nobody unruly, three in a row do") {
  family f;
  f.wishes = {100'000, 40'000};
  f.ticks(5);
  REQUIRE(f.caps() == caps_of_both{60'000, 40'000});
  for (const int64_t drawn_mw : {90'000, 90'000, 40'000, 90'000, 90'000}) {
    f.draws[1] = drawn_mw;
    f.tick();
    CHECK(!f.parent.is_unruly(1));
    CHECK(f.parent.counted_mw(1) == 40'000);
  }
  f.draws[1].reset();  // neither one more nor one that keeps
  f.ticks(3);
  CHECK(!f.parent.is_unruly(1));
  CHECK(f.caps() == caps_of_both{60'000, 40'000});
  f.draws[1] = 90'000;
  f.tick();
  CHECK(f.parent.is_unruly(1));
  CHECK(f.parent.counted_mw(1) == 90'000);
  CHECK(f.caps() == caps_of_both{10'000, 40'000});
}

TEST_CASE("budgets: a reading above a cap by no more than a hundredth of it is none above it") {
  family f;
  f.wishes = {40'000, 60'000};
  f.ticks(5);
  REQUIRE(f.caps() == caps_of_both{40'000, 60'000});
  f.draws[1] = 60'600;
  f.ticks(6);
  CHECK(!f.parent.is_unruly(1));
  f.draws[1] = 60'601;
  f.ticks(3);
  CHECK(f.parent.is_unruly(1));
}

TEST_CASE("BGT-8: budgets: noise that is more than all that a child has keeps it from nothing") {
  family f;
  f.terms[0].floor_mw = 10'000;
  f.terms[0].static_share_mw = 20'000;
  f.terms[0].ceiling_mw = 25'000;
  f.rules.noise_mw = 30'000;
  f.new_parent(2);
  f.children[0] = lease_policy(20'000, 1, 5000);
  f.wishes = {25'000, 60'000};
  f.ticks(4);
  CHECK(f.caps() == caps_of_both{25'000, 50'000});  // what is less to the other one is noise
}

TEST_CASE(
    "BGT-8: budgets: for who has less than its static share others are cut by any difference") {
  family f;
  f.rules.noise_mw = 2000;
  f.new_parent(2);
  f.wishes = {60'000, 40'000};
  f.ticks(5);
  REQUIRE(f.caps() == caps_of_both{60'000, 40'000});
  f.wishes = {59'000, 41'000};
  f.ticks(4);
  CHECK(f.caps() == caps_of_both{59'000, 41'000});
}

TEST_CASE("PWR-1: budgets: whatever a child says, others have what is left beside its ceiling") {
  for (const bool claims : {false, true}) {
    CAPTURE(claims);
    family f;
    f.own.cap_mw = 180'000;
    f.ticks(5);
    REQUIRE(f.caps() == caps_of_both{80'000, 100'000});
    if (claims) f.claims[0] = beyond_mw;
    f.draws[0] = beyond_mw;
    f.ticks(8);
    CHECK(f.parent.is_unruly(0));  // by what it says, not by what is counted
    CHECK(f.parent.counted_mw(0) == 100'000);
    CHECK(f.parent.told_mw() <= 180'000);
    CHECK(f.caps()[1] == 80'000);
    CHECK(!f.children[1].is_shed());
    f.claims[0].reset();
    f.draws[0] = 20'000;
    f.ticks(8);
    CHECK(!f.parent.is_unruly(0));
    CHECK(f.caps() == caps_of_both{80'000, 100'000});
  }
}

TEST_CASE("PWR-1: budgets: what the journal says of a child counts above its ceiling, too") {
  family f;
  f.terms[1].remembered_mw = 150'000;
  f.new_parent(2);
  f.claims[1] = 200'000;
  f.ticks(4);
  CHECK(f.parent.counted_mw(1) == 150'000);
}

TEST_CASE("BGT-5: budgets: who idles above its cap gets room once others give back, and works") {
  family f;
  f.own.cap_mw = 60'000;
  f.ticks(5);
  REQUIRE(f.caps() == caps_of_both{10'000, 50'000});
  f.works[0] = false;
  f.draws[0] = 20'000;
  f.obeys[1] = false;  // what it is to give back it still has
  for (int i = 0; i < 20; ++i) {
    f.tick();
    CHECK(!f.parent.is_unruly(0));
    CHECK(f.caps()[0] == 10'000);
  }
  CHECK(f.parent.counted_mw(0) == 20'000);
  CHECK(f.caps()[1] == 31'000);
  f.obeys[1] = true;
  f.ticks(2);
  CHECK(f.caps() == caps_of_both{29'000, 31'000});
  f.works[0] = true;
  f.draws[0] = 29'000;
  f.ticks(20);
  CHECK(!f.parent.is_unruly(0));
  CHECK(f.caps() == caps_of_both{29'000, 31'000});
}

TEST_CASE("BGT-7: budgets: what went on before the first process is heard counts on beside it") {
  for (const bool is_remembered : {false, true}) {
    CAPTURE(is_remembered);
    family f;
    f.speaks[1] = false;
    f.terms[1].others_work = !is_remembered;
    f.terms[1].remembered_mw = is_remembered ? 100'000 : 0;
    f.new_parent(2);
    const auto takes = static_cast<int>(f.parent.fall_ns() / budget_second);
    f.ticks(takes + 2);
    REQUIRE(f.parent.knows(f.now_ns));
    REQUIRE(f.parent.counted_mw(1) == 100'000);
    f.speaks[1] = true;  // it has begun, and what it has by itself is not held yet
    for (int i = 0; i < takes; ++i) {
      f.tick();
      CHECK(f.parent.counted_mw(1) == 100'000);
      CHECK(f.caps()[0] < 10'000);
    }
    f.ticks(4);
    CHECK(f.caps() == caps_of_both{10'000, 90'000});
    f.new_parent(3);  // who has a lease holds it
    f.ticks(4);
    CHECK(f.parent.counted_mw(1) == 90'000);
  }
}
