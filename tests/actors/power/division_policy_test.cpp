// How watts are divided, by tables and by random nodes.
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/division_policy.hpp"
#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr auto of_high = power_class::high, of_low = power_class::low;

std::vector<power_share> divided(int64_t available_mw, const std::vector<power_ask>& asks) {
  std::vector<power_share> out(asks.size());
  division_policy::divide(available_mw, asks, out);
  return out;
}

std::vector<int64_t> caps(const std::vector<power_share>& shares) {
  std::vector<int64_t> out;
  for (const auto& s : shares) out.push_back(s.cap_mw);
  return out;
}

using mw = std::vector<int64_t>;

}  // namespace

TEST_CASE("division: floors first, then high priority up to its wish, then low") {
  const std::vector<power_ask> asks = {{of_low, 10, 100, 1, 80}, {of_high, 10, 100, 1, 60}};
  CHECK(caps(divided(20, asks)) == mw{10, 10});
  CHECK(caps(divided(50, asks)) == mw{10, 40});
  CHECK(caps(divided(70, asks)) == mw{10, 60});
  CHECK(caps(divided(100, asks)) == mw{40, 60});
  CHECK(caps(divided(140, asks)) == mw{80, 60});
}

TEST_CASE("division: what nobody wishes lies ready for all, up to their ceilings") {
  const std::vector<power_ask> asks = {{of_low, 10, 100, 1, 80}, {of_high, 10, 90, 1, 60}};
  CHECK(caps(divided(150, asks)) == mw{80, 70});
  CHECK(caps(divided(180, asks)) == mw{90, 90});
  CHECK(caps(divided(1000, asks)) == mw{100, 90});
}

TEST_CASE("division: within a class who asks for most is cut first") {
  const std::vector<power_ask> asks = {
      {of_low, 0, 100, 0, 20}, {of_low, 0, 100, 0, 90}, {of_low, 30, 100, 0, 60}};
  CHECK(caps(divided(170, asks)) == mw{20, 90, 60});
  CHECK(caps(divided(150, asks)) == mw{20, 70, 60});
  CHECK(caps(divided(120, asks)) == mw{20, 50, 50});
  CHECK(caps(divided(60, asks)) == mw{15, 15, 30});
}

TEST_CASE("DVN-2: division: below the floors low priority is shed first, the last first") {
  const std::vector<power_ask> asks = {
      {of_low, 40, 100, 5, 100}, {of_high, 40, 100, 5, 100}, {of_low, 40, 100, 5, 100}};
  const auto shed = [&](int64_t available) {
    std::vector<int64_t> out;
    for (const auto& s : divided(available, asks)) out.push_back(s.shed);
    return out;
  };
  CHECK(shed(120) == mw{0, 0, 0});
  CHECK(shed(119) == mw{0, 0, 1});
  CHECK(caps(divided(119, asks)) == mw{40, 74, 5});
  CHECK(shed(84) == mw{1, 0, 1});
  CHECK(caps(divided(84, asks)) == mw{5, 74, 5});
  CHECK(shed(49) == mw{1, 1, 1});
  CHECK(caps(divided(-100, asks)) == mw{5, 5, 5});
}

TEST_CASE("division: whose watts are not to be had gets none") {
  std::vector<power_ask> asks = {{of_low, 10, 100, 1, 80}, {of_high, 10, 100, 1, 60}};
  asks[1].takes_part = false;
  CHECK(caps(divided(90, asks)) == mw{90, 0});
}

TEST_CASE("DVN-1: division: random nodes give no more than there is, and leave nothing unused") {
  sim::rng chance(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<power_ask> asks(1 + chance.below(6));
    int64_t ceilings = 0;
    for (auto& a : asks) {
      a.priority = chance.chance(0.5) ? of_high : of_low;
      a.ceiling_mw = chance.between(0, 100'000);
      a.floor_mw = chance.between(0, a.ceiling_mw);
      a.paused_mw = chance.between(0, a.floor_mw);
      a.wish_mw = chance.between(0, 120'000);
      ceilings += a.ceiling_mw;
    }
    const int64_t available = chance.between(0, 400'000);
    const auto shares = divided(available, asks);
    int64_t sum = 0;
    const bool any_shed =
        std::any_of(shares.begin(), shares.end(), [](const auto& x) { return x.shed; });
    for (size_t k = 0; k < asks.size(); ++k) {
      sum += shares[k].cap_mw;
      REQUIRE(shares[k].cap_mw <= asks[k].ceiling_mw);
      REQUIRE(shares[k].cap_mw >= (shares[k].shed ? asks[k].paused_mw : asks[k].floor_mw));
      // None of a class has less than another but by its own wish, or by the other's floor.
      for (size_t j = 0; j < asks.size() && !any_shed; ++j)
        if (asks[j].priority == asks[k].priority && shares[j].cap_mw + 1 < shares[k].cap_mw &&
            shares[j].cap_mw + 1 < std::min(asks[j].wish_mw, asks[j].ceiling_mw))
          REQUIRE(shares[k].cap_mw == asks[k].floor_mw);
    }
    if (!any_shed) {
      REQUIRE(sum <= available);
      REQUIRE(sum >= std::min(available, ceilings) - int64_t(asks.size()));
    }
  }
}
