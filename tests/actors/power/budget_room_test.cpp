// What a budget tells a child of the room that there is for it, and what it keeps for others' work.
#include <doctest/doctest.h>

#include "tests/actors/power/scripted_budget.hpp"

using namespace troupe;
using namespace troupe::power;
using troupe::test::scripted_budget;

TEST_CASE("PWR-3: budget: who waits is told what it needs, and what is free beside the others") {
  scripted_budget f;
  f.terms[1].terms.others_work = true;  // 70 of 70 W may be drawn there before it is heard
  f.begin(1);
  f.children[1].speaks = false;
  f.seconds(14);
  auto answer = f.answer_to(f.children[0]);
  CHECK(answer.floor_mw == 10'000);
  CHECK(answer.free_mw == 0);
  CHECK(f.caps()[0] < 10'000);
  CHECK(f.tree().children[1]->counted_mw == 70'000);
  f.children[1].speaks = true;  // it has 30 W
  f.children[1].wish_mw = 30'000;
  f.seconds(14);  // nothing holds that work yet as it is heard (BGT-7)
  answer = f.answer_to(f.children[0]);
  CHECK(answer.free_mw == 40'000);
  CHECK(f.caps()[0] >= 10'000);
}
