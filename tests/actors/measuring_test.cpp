// A measurement that ends by an exception: whoever waits is told of it.
#include "actors/cluster/measuring.hpp"

#include <functional>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::cluster;

namespace {

/// What it told, once its thread has ended.
result<double> told_by_measuring(std::function<result<double>()> measure) {
  std::vector<result<double>> all;
  measure_apart(std::move(measure), [&](const result<double>& r) { all.push_back(r); }).get();
  REQUIRE(all.size() == 1);
  return all.front();
}

}  // namespace

TEST_CASE("measuring: what is measured is told, and so is that it ended by an exception") {
  const auto good = told_by_measuring([] { return 2e9; });
  REQUIRE(good);
  CHECK(*good == 2e9);
  const auto refused = told_by_measuring([] { return error{errc::bad_config, "no such model"}; });
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_config);
  const auto full = told_by_measuring([]() -> result<double> { throw std::bad_alloc(); });
  REQUIRE_FALSE(full);
  CHECK(full.error().code == errc::no_memory);
  const auto threadless =
      told_by_measuring([]() -> result<double> { throw std::runtime_error("no threads"); });
  REQUIRE_FALSE(threadless);
  CHECK(threadless.error().code == errc::unavailable);
}
