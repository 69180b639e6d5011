// Reads and writes at once or in turn: which is tried when, and which is taken.
#include "gpu/swap/duplex_policy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace troupe::gpu;

namespace {

/// Makes steps that take so long; in which ways.
std::vector<bool> ways_of(duplex_policy& p, int steps, double mixed, double turns) {
  std::vector<bool> out;
  for (int i = 0; i < steps; ++i) {
    out.push_back(p.mixes());
    p.made(p.mixes() ? mixed : turns);
  }
  return out;
}

constexpr int trial = 4 * static_cast<int>(duplex_policy::samples);

}  // namespace

TEST_CASE("DPX-1: both ways are tried in turn, two steps each, and then long no more") {
  duplex_policy p;
  const auto ways = ways_of(p, duplex_policy::first + trial + duplex_policy::pause, 1.0, 1.0);
  for (int i = 0; i < static_cast<int>(ways.size()); ++i) {
    const int within = i - duplex_policy::first;
    const bool tried = within >= 0 && within < trial && within / 2 % 2 == 1;
    CAPTURE(i);
    CHECK(ways[static_cast<size_t>(i)] == !tried);
  }
  const auto next = ways_of(p, trial, 1.0, 1.0);
  CHECK(std::count(next.begin(), next.end(), false) == trial / 2);
}

TEST_CASE("DPX-2: turns are taken where they are quicker, and given up again") {
  duplex_policy p;
  ways_of(p, duplex_policy::first + trial, 1.0, 0.9);
  CHECK_FALSE(p.mixes());
  const auto told = p.decided();
  REQUIRE(told);
  CHECK(told->mixed == 1.0);
  CHECK(told->turns == 0.9);
  CHECK_FALSE(p.decided());
  ways_of(p, duplex_policy::pause + trial, 1.0, 0.99);  // not by enough
  CHECK(p.mixes());
  ways_of(p, duplex_policy::pause + trial, 1.0, 1.5);
  CHECK(p.mixes());
}

TEST_CASE("DPX-2: a slow moment of the drive decides nothing") {
  std::mt19937 random(1);
  for (int run = 0; run < 100; ++run) {
    duplex_policy p;
    bool slow = false;
    for (int i = 0; i < duplex_policy::first + trial; ++i) {
      const bool now = !slow && random() % 12 == 0;  // once, at any step
      slow = slow || now;
      p.made((p.mixes() ? 1.0 : 0.9) * (now ? 20 : 1));
    }
    CHECK_FALSE(p.mixes());
  }
}

TEST_CASE("DPX-3: a step whose time tells nothing is made again in the same way") {
  duplex_policy p;
  ways_of(p, duplex_policy::first + 2, 1.0, 0.5);
  CHECK_FALSE(p.mixes());
  for (int i = 0; i < 5; ++i) p.made(std::nullopt);
  CHECK_FALSE(p.mixes());
  p.made(0.5);
  p.made(std::nullopt);
  p.made(0.5);
  CHECK_FALSE(p.mixes());  // of a pair both are known
  p.made(0.5);
  CHECK(p.mixes());
}

TEST_CASE("DPX-3: a trial in which hardly a step tells anything ends, as one of old steps does") {
  duplex_policy p;
  ways_of(p, duplex_policy::first + 2, 1.0, 0.5);
  CHECK_FALSE(p.mixes());
  for (int i = 0; i <= duplex_policy::untold_steps; ++i) p.made(std::nullopt);
  CHECK(p.mixes());
  for (int i = 0; i < duplex_policy::pause - 1; ++i) {
    p.made(0.5);
    CHECK(p.mixes());
  }
  ways_of(p, 3, 1.0, 0.5);
  CHECK_FALSE(p.mixes());
  p.changed();
  CHECK(p.mixes());
  ways_of(p, duplex_policy::first + trial, 1.0, 0.5);
  CHECK_FALSE(p.mixes());
}
