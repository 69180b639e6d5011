// Percentiles of how long something took the last times.
#include "io/base/recent_delays.hpp"

#include <doctest/doctest.h>

using troupe::recent_delays;

TEST_CASE("recent delays: percentiles by nearest rank, of the last alone") {
  recent_delays d;
  CHECK(!d.percentile_ns(99));
  d.add(7);
  CHECK(d.percentile_ns(50) == 7);
  CHECK(d.percentile_ns(99) == 7);
  for (int64_t i = 1; i < 100; ++i) d.add(i * 10);
  CHECK(d.percentile_ns(1) == 7);
  CHECK(d.percentile_ns(50) == 490);
  CHECK(d.percentile_ns(99) == 980);
  CHECK(d.percentile_ns(100) == 990);
  for (size_t i = 0; i < recent_delays::kept; ++i) d.add(5);
  CHECK(d.percentile_ns(100) == 5);
}

TEST_CASE("recent delays: no time is below none, nor beyond an hour") {
  recent_delays d;
  d.add(-1);
  CHECK(d.percentile_ns(100) == 0);
  d.add(INT64_MAX);
  CHECK(d.percentile_ns(100) == 3'600'000'000'000);
}
