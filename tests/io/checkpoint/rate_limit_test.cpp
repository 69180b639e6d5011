// Bytes against time, by tables.
#include "io/checkpoint/rate_limit.hpp"

#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

using troupe::io::checkpoint::rate_limit;

namespace {

constexpr int64_t s = 1'000'000'000;

}  // namespace

TEST_CASE("RL-1: what was moved is waited for, however it was cut") {
  rate_limit limit(1000);
  int64_t now = 5 * s;
  CHECK(limit.wait_ns(now) == 0);
  limit.spend(500, now);
  CHECK(limit.wait_ns(now) == s / 2);
  CHECK(limit.wait_ns(now + s / 4) == s / 4);
  CHECK(limit.wait_ns(now + s) == 0);
  for (const uint64_t piece : {1, 7, 100, 1000}) {
    rate_limit each(1000);
    int64_t at = now;
    for (uint64_t moved = 0; moved < 10'000; moved += piece) {
      each.spend(piece, at);
      at += each.wait_ns(at);
    }
    CHECK(at - now >= 10 * s - s / 1000);
    CHECK(at - now < 11 * s);
  }
}

TEST_CASE("RL-1: the time that moving itself takes counts") {
  rate_limit limit(1000);
  limit.spend(500, 0);  // takes 0.3 s
  CHECK(limit.wait_ns(3 * s / 10) == s / 5);
  limit.spend(500, s / 2);  // takes 2 s: slower than the limit
  CHECK(limit.wait_ns(5 * s / 2) == 0);
}

TEST_CASE("RL-2: a pause is not saved up") {
  rate_limit limit(1000);
  limit.spend(1000, 0);
  limit.spend(1000, 3600 * s);
  CHECK(limit.wait_ns(3600 * s) == s);
}

TEST_CASE("rate limit: none, and impossible amounts") {
  rate_limit none(0);
  none.spend(std::numeric_limits<uint64_t>::max(), 0);
  CHECK(none.wait_ns(0) == 0);
  rate_limit least(1);
  for (int i = 0; i < 100; ++i) least.spend(std::numeric_limits<uint64_t>::max(), 0);
  CHECK(least.wait_ns(0) > 0);
}
