// The offset of two clocks from round trips: within its bound whatever the network does.
#include "actors/cluster/clock_estimator.hpp"

#include <random>

#include <doctest/doctest.h>

using troupe::cluster::clock_estimator;

TEST_CASE("no sample, no offset") {
  CHECK_FALSE(clock_estimator{}.at(0).has_value());
}

TEST_CASE("a symmetric round trip gives the offset exactly") {
  clock_estimator p;
  p.heard(1'000, 501'000 + 50, 1'100);
  const auto now = p.at(1'100);
  REQUIRE(now);
  CHECK(now->offset_ns == 500'000);
  CHECK(now->bound_ns == 50);
}

TEST_CASE("CLK-2: a slow round trip does not displace a quick one") {
  clock_estimator p;
  p.heard(0, 1'000'010, 20);
  p.heard(1'000, 1'900'000, 900'000);
  CHECK(p.at(900'000)->offset_ns == 1'000'000);
}

TEST_CASE("an answer from before the question is no sample") {
  clock_estimator p;
  p.heard(100, 5, 50);
  CHECK_FALSE(p.at(100).has_value());
}

TEST_CASE("CLK-1: the truth lies within the bound, with lopsided paths and drifting clocks") {
  std::mt19937_64 chance(7);
  for (int run = 0; run < 50; ++run) {
    clock_estimator p;
    const double drift = std::uniform_real_distribution<>(-90e-6, 90e-6)(chance);
    constexpr int64_t second = 1'000'000'000;
    const auto base = std::uniform_int_distribution<int64_t>(-second, second)(chance);
    auto there = [&](int64_t here) {
      return here + base + static_cast<int64_t>(drift * static_cast<double>(here));
    };
    std::uniform_int_distribution<int64_t> leg(20'000, 5'000'000);
    int64_t now = 1'000'000'000;
    for (int beat = 0; beat < 40; ++beat) {
      const int64_t sent = now, arrived = sent + leg(chance), answered = arrived + leg(chance);
      p.heard(sent, there(arrived), answered);
      now = answered + 1'000'000'000;
      const auto guess = p.at(now);
      REQUIRE(guess);
      CHECK(std::abs(guess->offset_ns - (there(now) - now)) <= guess->bound_ns);
    }
  }
}
