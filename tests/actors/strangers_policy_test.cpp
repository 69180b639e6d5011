// Who may wait at the ingress, how long, and who gives way.
#include "actors/cluster/strangers_policy.hpp"

#include <doctest/doctest.h>

using namespace troupe::cluster;

namespace {

constexpr int64_t a_second = 1'000'000'000;

strangers_policy small() {
  return strangers_policy({2, 3, 10 * a_second});
}

}  // namespace

TEST_CASE("strangers: the oldest of a full address gives way, of no other (STR-1)") {
  auto p = small();
  CHECK_FALSE(p.came(1, "a", 0));
  CHECK_FALSE(p.came(2, "b", 1));
  CHECK_FALSE(p.came(3, "a", 2));
  CHECK(p.came(4, "a", 3) == 1);
  CHECK(p.came(5, "a", 4) == 3);
  CHECK(p.waiting() == 3);
}

TEST_CASE("strangers: where all are too many, the address that has the most gives one (STR-1)") {
  auto p = small();
  p.came(1, "a", 0);
  p.came(2, "b", 1);
  p.came(3, "b", 2);
  CHECK(p.came(4, "c", 3) == 2);
  CHECK(p.came(5, "c", 4) == 1);  // all have one: the first by name
  CHECK(p.waiting() == 3);
}

TEST_CASE("strangers: who waits too long is told once, the others stay (STR-2)") {
  auto p = small();
  p.came(1, "a", 0);
  p.came(2, "a", a_second);
  CHECK(p.overdue(10 * a_second - 1).empty());
  CHECK(p.overdue(10 * a_second) == std::vector<int64_t>{1});
  CHECK(p.overdue(10 * a_second).empty());
  CHECK(p.overdue(60 * a_second) == std::vector<int64_t>{2});
  CHECK(p.waiting() == 0);
}

TEST_CASE("strangers: who has said who he is is never given up (STR-3)") {
  auto p = small();
  p.came(1, "a", 0);
  p.came(2, "a", 0);
  p.settled(1);
  p.settled(1);
  p.settled(77);
  CHECK_FALSE(p.came(3, "a", 1));
  CHECK(p.came(4, "a", 2) == 2);
  CHECK(p.overdue(100 * a_second) == std::vector<int64_t>{3, 4});
}

TEST_CASE("strangers: a number that is used again is a new connection") {
  auto p = small();
  p.came(1, "a", 0);
  CHECK_FALSE(p.came(1, "a", 5 * a_second));
  CHECK(p.waiting() == 1);
  CHECK(p.overdue(10 * a_second).empty());
}

TEST_CASE("strangers: who says nothing gives way before those that have begun (STR-4)") {
  strangers_policy p({4, 8, 10 * a_second});
  for (int64_t i = 1; i <= 4; ++i) p.came(i, "a", i);
  p.spoke(1);
  p.spoke(2);
  p.spoke(2);
  CHECK(p.came(5, "a", 5) == 3);
  CHECK(p.came(6, "a", 6) == 4);
  CHECK(p.came(7, "a", 7) == 5);
  p.spoke(6);  // three of four: more than half
  CHECK(p.came(8, "a", 8) == 1);
  CHECK(p.came(9, "a", 9) == 7);
  p.spoke(77);
}

TEST_CASE("strangers: neither kind keeps the other out, whatever crowd comes (STR-4)") {
  for (const bool crowd_speaks : {false, true}) {
    strangers_policy p;
    p.came(-1, "127.0.0.1", 0);
    if (!crowd_speaks) p.spoke(-1);
    for (int64_t i = 0; i < 10'000; ++i) {
      const auto out = p.came(i, "127.0.0.1", i);
      if (crowd_speaks) p.spoke(i);
      CHECK(out != -1);
      CHECK(p.waiting() <= stranger_bounds{}.per_address);
    }
  }
}

TEST_CASE("strangers: ten thousand of them leave room for one more") {
  strangers_policy p;
  for (int64_t i = 0; i < 10'000; ++i) p.came(i, "127.0.0.1", i);
  CHECK(p.waiting() == stranger_bounds{}.per_address);
  CHECK(p.came(10'000, "127.0.0.1", 10'000) == 10'000 - 512);
}

TEST_CASE("strangers: what they take of the descriptors leaves the rest more") {
  for (const int64_t descriptors : {64, 256, 1024, 4096, 1 << 20}) {
    const auto s = shares_of(descriptors);
    CHECK(s.reserve >= 16);
    CHECK(static_cast<int64_t>(s.strangers.in_all) + s.reserve < descriptors);
    CHECK(s.strangers.per_address <= s.strangers.in_all);
  }
  CHECK(shares_of(1024).reserve == 256);
  CHECK(shares_of(1024).strangers.in_all == 384);
  CHECK(shares_of(1 << 20).strangers.in_all == 1024);
}
