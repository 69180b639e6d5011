// Whether steps take longer than they did.
#include "actors/health/regression_policy.hpp"

#include <doctest/doctest.h>

#include "actors/sim/rng.hpp"

using namespace troupe::health;

namespace {

struct judged_steps {
  regression_policy policy{0.2};
  step_window window{1, 10, 64, 1, 0, {}};

  /// So many windows; whether the last said so.
  std::optional<regression_policy::verdict> take(double ms, int windows = 1) {
    std::optional<regression_policy::verdict> out;
    window.step_ms = ms;
    for (int i = 0; i < windows; ++i) out = policy.judge(window);
    return out;
  }
};

}  // namespace

TEST_CASE("RGR-2: steps take longer once five windows say so") {
  judged_steps of;
  CHECK_FALSE(of.take(100, 20));
  CHECK_FALSE(of.take(125, 4));
  const auto v = of.take(130);
  REQUIRE(v);
  CHECK(v->step_ms == 125);
  CHECK(v->best_ms == 100);
  CHECK_FALSE(of.take(119));  // one that is not ends it
  CHECK_FALSE(of.take(125, 4));
  CHECK(of.take(125));
}

TEST_CASE("RGR-2: neither a slow window nor a quick one by chance is a reason") {
  judged_steps of;
  of.take(100, 5);
  CHECK_FALSE(of.take(10, 2));
  CHECK_FALSE(of.take(100, 20));
  for (int i = 0; i < 50; ++i) {
    CHECK_FALSE(of.take(500, 4));
    CHECK_FALSE(of.take(100));
  }
}

TEST_CASE("RGR-1: an epoch, other work and another pace begin anew") {
  judged_steps of;
  of.take(100, 10);
  of.window.tokens = 128;
  CHECK_FALSE(of.take(200, 20));
  of.window.epoch = 2;
  CHECK_FALSE(of.take(300, 20));
  CHECK(of.take(400, 5));
  of.window.pace = 0.3;
  CHECK_FALSE(of.take(600, 20));
  of.window.pace = 0.32;
  CHECK(of.take(800, 5));
}

TEST_CASE("RGR: windows that vary by a tenth are no regression, and a limit of nothing is none") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    troupe::sim::rng random(seed);
    judged_steps of;
    for (int i = 0; i < 500; ++i) CHECK_FALSE(of.take(0.4 * (0.95 + 0.1 * random.unit())));
  }
  judged_steps off;
  off.policy = regression_policy(0);
  off.take(100, 10);
  CHECK_FALSE(off.take(1000, 10));
}
