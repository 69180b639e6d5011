// What sums of a budget's life come to, tick by tick.
#include "actors/power/row_account.hpp"

#include <doctest/doctest.h>

using namespace troupe::power;

namespace {

constexpr int64_t one_tick_ns = 1'000'000'000;

row_look drawing_of_100(std::optional<int64_t> drawn_mw, bool low = false, bool braked = false) {
  return {drawn_mw, 100'000, 0.89, low, false, braked};
}

}  // namespace

TEST_CASE("RAC-1: row account: a tick counts for what held after it") {
  row_account a(one_tick_ns);
  CHECK(a.sums(5 * one_tick_ns).energy_j == 0);
  a.tick(drawing_of_100(50'000, true), 0);
  a.tick(drawing_of_100(80'000, false, true), 2 * one_tick_ns);
  const auto sums = a.sums(3 * one_tick_ns);
  CHECK(sums.low_capped_ns == 2 * one_tick_ns);
  CHECK(sums.high_capped_ns == 0);
  CHECK(sums.braked_ns == one_tick_ns);
  CHECK(sums.energy_j == doctest::Approx(50 * 2 + 80));
  CHECK(a.sums(1000 * one_tick_ns).braked_ns == 10 * one_tick_ns);  // nobody has looked since
  CHECK(a.sums(one_tick_ns).braked_ns == 0);
}

TEST_CASE("RAC-2: row account: a missing reading neither begins nor ends what is over T2") {
  row_account a(one_tick_ns);
  a.tick(drawing_of_100(std::nullopt), 0);
  CHECK(!a.over_t2_ms(0));
  a.tick(drawing_of_100(89'000), one_tick_ns);  // at it, not over it
  CHECK(!a.over_t2_ms(one_tick_ns));
  a.tick(drawing_of_100(89'001), 2 * one_tick_ns);
  a.tick(drawing_of_100(std::nullopt), 3 * one_tick_ns);
  a.tick(drawing_of_100(95'000), 4 * one_tick_ns);
  CHECK(a.over_t2_ms(5 * one_tick_ns) == 3000);
  CHECK(a.sums(4 * one_tick_ns).energy_j == doctest::Approx(89.0 + 89.001));
  a.tick(drawing_of_100(80'000), 5 * one_tick_ns);
  CHECK(!a.over_t2_ms(5 * one_tick_ns));
}
