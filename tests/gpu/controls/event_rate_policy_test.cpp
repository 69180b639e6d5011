// Events that come faster than they are told: each is told, or counted in a number that is.
#include "gpu/controls/event_rate_policy.hpp"

#include <doctest/doctest.h>

using troupe::gpu::controls::event_rate_policy;

TEST_CASE("EVR-1: event rate: of many within a minute some are told, and the rest as a number") {
  constexpr int64_t minute = event_rate_policy::minute_ns;
  event_rate_policy p(3);
  CHECK_FALSE(p.due_ns());
  for (int i = 0; i < 3; ++i) CHECK(p.take(100 + i));
  CHECK_FALSE(p.due_ns());
  CHECK(p.take_left_out(minute) == 0);
  for (int i = 0; i < 5; ++i) CHECK_FALSE(p.take(minute));
  CHECK(p.due_ns() == 100 + minute);
  CHECK(p.take_left_out(99 + minute) == 0);
  CHECK(p.take_left_out(100 + minute) == 5);
  CHECK(p.take_left_out(100 + minute) == 0);
  for (int i = 0; i < 3; ++i) CHECK(p.take(100 + minute));
  CHECK_FALSE(p.take(101 + minute));
  CHECK(p.take_left_out(102 + minute, true) == 1);  // no more is to come
}

TEST_CASE("EVR-1: event rate: what comes seldom is told, each of it") {
  event_rate_policy p(1);
  for (int64_t i = 0; i < 10; ++i) {
    CHECK(p.take(i * event_rate_policy::minute_ns));
    CHECK_FALSE(p.due_ns());
  }
}
