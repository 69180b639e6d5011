// Which heads are started again.
#include "apps/up/head_restarts_policy.hpp"

#include <doctest/doctest.h>

#include "tests/errors.hpp"

using namespace troupe::apps;
using namespace std::chrono_literals;

namespace {

const std::string killed_by_9 = "was killed by signal 9 (Killed)";
const head_restarts_policy::clock::time_point start{1000s};

}  // namespace

TEST_CASE("HRS-2: a head that has made a step is started again, as often as it said") {
  head_restarts_policy p;
  const head_says said{2, true};
  CHECK(p.after_kill(killed_by_9, said, false, start));
  CHECK(p.within_hour() == 1);
  CHECK(p.after_kill(killed_by_9, said, false, start + 1s));
  const auto third = p.after_kill(killed_by_9, said, false, start + 2s);
  REQUIRE_FALSE(third);
  CHECK(third.error().is(head_lost));
  CHECK(p.within_hour() == 2);
}

TEST_CASE("HRS-2: after an hour there is budget again, and not before") {
  head_restarts_policy p;
  const head_says said{1, false};
  CHECK(p.after_kill(killed_by_9, said, false, start));
  CHECK_FALSE(p.after_kill(killed_by_9, said, false, start + 1h - 1ns));
  CHECK(p.after_kill(killed_by_9, said, false, start + 1h));
}

TEST_CASE("HRS-2: not one that had no step, was asked to stop, or whose job does not recover") {
  head_restarts_policy p;
  CHECK_FALSE(p.after_kill(killed_by_9, {{}, true}, false, start));
  CHECK_FALSE(p.after_kill(killed_by_9, {5, true}, true, start));
  CHECK_FALSE(p.after_kill(killed_by_9, {0, true}, false, start));
  CHECK(p.within_hour() == 0);
}

TEST_CASE("HRS-3: of those behind one that made a step, three in a row that make none") {
  head_restarts_policy p;
  const head_says made{9, true}, none{{}, false};
  for (int round = 0; round < 2; ++round) {
    CHECK(p.after_kill(killed_by_9, made, false, start + round * 1h));
    CHECK(p.per_hour() == 9);
    for (int n = 0; n < 3; ++n) CHECK(p.after_kill(killed_by_9, none, false, start + round * 1h));
  }
  const auto fourth = p.after_kill(killed_by_9, none, false, start + 1h);
  REQUIRE_FALSE(fourth);
  CHECK(fourth.error().is(head_lost));
}
