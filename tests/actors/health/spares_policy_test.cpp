// P99 of the binomial, against what ByteRobust published.
#include "actors/health/spares_policy.hpp"

#include <doctest/doctest.h>

using troupe::health::spares_for;

TEST_CASE("spares: 0.12 % a day gives ByteRobust's numbers") {
  CHECK(spares_for(128, 1.2) == 2);
  CHECK(spares_for(256, 1.2) == 2);
  CHECK(spares_for(512, 1.2) == 3);
  CHECK(spares_for(1024, 1.2) == 4);
}

TEST_CASE("spares: none where nothing fails, all where everything does, and never fewer for more") {
  CHECK(spares_for(0, 1.2) == 0);
  CHECK(spares_for(1000, 0) == 0);
  CHECK(spares_for(7, 1000) == 7);
  CHECK(spares_for(1, 9) == 0);
  CHECK(spares_for(1, 11) == 1);
  int64_t before = 0;
  for (int64_t nodes = 1; nodes <= 100'000; nodes *= 2) {
    const auto now = spares_for(nodes, 6.5);
    CHECK(now >= before);
    CHECK(now <= nodes);
    before = now;
  }
  CHECK(before > 400);  // the mean is 426
}
