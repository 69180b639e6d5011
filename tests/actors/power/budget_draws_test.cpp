// What children draw, ask for and say beyond what they may: what a node of the tree of budgets
// makes of it, and what the others have beside them.
#include <doctest/doctest.h>

#include "tests/actors/power/budget_family.hpp"

using namespace troupe::power;
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
