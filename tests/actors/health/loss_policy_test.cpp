// What counts as a spike of the loss, and what does not.
#include "actors/health/loss_policy.hpp"

#include <cmath>
#include <random>

#include <doctest/doctest.h>

using troupe::health::loss_policy;

namespace {

/// A loss that falls as those of trainings do, with noise of a hundredth.
struct falling_loss {
  std::mt19937_64 rng;
  std::normal_distribution<double> noise{0, 0.03};
  explicit falling_loss(uint64_t seed) : rng(seed) {}
  double at(uint64_t step) {
    return 2 + 9 * std::exp(-static_cast<double>(step) / 60) + noise(rng);
  }
};

}  // namespace

TEST_CASE("LSS-2: a loss that stays high is a spike from its first step on, until it is down") {
  loss_policy policy(8);
  falling_loss loss(1);
  uint64_t step = 0;
  while (step < 300) {
    ++step;
    CHECK_FALSE(policy.judge(step, loss.at(step)));
  }
  CHECK_FALSE(policy.judge(++step, 4));
  CHECK_FALSE(policy.judge(++step, 4.5));
  for (int high = 0; high < 40; ++high) {
    const auto seen = policy.judge(++step, 5);
    REQUIRE(seen);
    CHECK(seen->first_step == 301);
    CHECK(seen->loss == 5);
    CHECK(seen->usual == doctest::Approx(2.2).epsilon(0.1));
    CHECK(seen->at_most < 3);
    CHECK(seen->steps == loss_policy::window);
  }
  CHECK(policy.judge(++step, 2.1));
  CHECK(policy.judge(++step, 2.1));
  CHECK_FALSE(policy.judge(++step, 2.1));
}

TEST_CASE("LSS-2: single hard batches, and steps of two, are none") {
  loss_policy policy(8);
  falling_loss loss(2);
  for (uint64_t step = 1; step < 2000; ++step)
    CHECK_FALSE(policy.judge(step, loss.at(step) + (step > 600 && step % 3 != 0 ? 3 : 0)));
}

TEST_CASE("loss: 200 trainings with noise have none") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    loss_policy policy(8);
    falling_loss loss(seed);
    for (uint64_t step = 1; step < 1000; ++step) REQUIRE_FALSE(policy.judge(step, loss.at(step)));
  }
}

TEST_CASE("LSS-1: what is not known long enough is none, and 0 deviations switch it off") {
  loss_policy young(8), off(0);
  for (uint64_t step = 1; step <= loss_policy::least_known; ++step) {
    CHECK_FALSE(young.judge(step, step < 10 ? 1 : 50));
    CHECK_FALSE(off.judge(step, 1));
  }
  for (uint64_t step = 21; step < 100; ++step) CHECK_FALSE(off.judge(step, 100));
}

TEST_CASE("loss: one that hardly moves may move by 2 %") {
  loss_policy policy(8);
  uint64_t step = 0;
  while (step < 50) policy.judge(++step, 3);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(policy.judge(++step, 3.05));
  for (int i = 0; i < 2; ++i) CHECK_FALSE(policy.judge(++step, 3.2));
  CHECK(policy.judge(++step, 3.2));
}

TEST_CASE("LSS-3: what lasts as long as the window is how high the loss is") {
  loss_policy policy(8);
  uint64_t step = 0;
  while (step < 100) policy.judge(++step, 1);
  size_t told = 0;
  for (int i = 0; i < 300; ++i) told += policy.judge(++step, 2) ? 1 : 0;
  CHECK(told == loss_policy::window - loss_policy::in_a_row);
}

TEST_CASE("LSS-4: steps that are made again count once") {
  loss_policy policy(8), straight(8);
  falling_loss loss(4), same(4);
  for (uint64_t step = 1; step <= 60; ++step) policy.judge(step, loss.at(step));
  for (uint64_t step = 61; step <= 64; ++step) policy.judge(step, 9);
  policy.go_back(60);
  for (uint64_t step = 1; step <= 60; ++step) straight.judge(step, same.at(step));
  for (uint64_t step = 61; step <= 64; ++step) {
    const auto a = policy.judge(step, 9), b = straight.judge(step, 9);
    REQUIRE(a.has_value() == b.has_value());
    if (a) CHECK(a->at_most == b->at_most);
  }
}
