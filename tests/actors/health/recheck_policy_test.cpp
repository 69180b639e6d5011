// Who computes otherwise, by itself and among equals.
#include "actors/health/recheck_policy.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using health::compare_rechecks;
using health::recheck_result;

namespace {

using told = std::vector<std::optional<recheck_result>>;  // by rank

/// Of layer 4, by a device of this likeness.
recheck_result once(uint64_t digest, uint64_t likeness = 1) {
  return {4, likeness, {9, digest}, {}, 0};
}
recheck_result twice(uint64_t digest, uint64_t again, uint64_t known_wrong = 0) {
  return {4, 1, {9, digest}, {9, again}, known_wrong};
}

}  // namespace

TEST_CASE("rechecks: who computes alike is compared, and nobody is odd") {
  const auto v = compare_rechecks({3, 1, 1}, told{once(1), once(1), once(1)});
  CHECK(v.compared);
  CHECK_FALSE(v.odd);
  CHECK(v.alone.empty());
  const auto stages =
      compare_rechecks({2, 1, 2}, told{twice(1, 1), twice(1, 1), twice(2, 2), twice(2, 2)});
  CHECK(stages.compared);
  CHECK_FALSE(stages.odd);
  const auto nobody = compare_rechecks({2, 1, 1}, told{{}, {}});
  CHECK_FALSE(nobody.compared);
}

TEST_CASE("RCK-2: rechecks: of three the one that differs is named, with its layer") {
  const auto v = compare_rechecks({3, 1, 1}, told{once(1), once(2), once(1)});
  REQUIRE(v.odd);
  CHECK(v.odd->ranks == std::vector{1});
  CHECK(v.odd->differing == std::vector{0, 1, 2});
  CHECK(v.odd->layer == 4);
  CHECK_FALSE(v.odd->by_itself);
  const auto first = compare_rechecks({3, 1, 1}, told{once(5), once(1), once(1)});
  REQUIRE(first.odd);
  CHECK(first.odd->ranks == std::vector{0});
}

TEST_CASE("RCK-2: rechecks: who differs from itself or from what is known is named, even alone") {
  const auto alone = compare_rechecks({1, 1, 1}, told{twice(1, 2)});
  REQUIRE(alone.odd);
  CHECK(alone.odd->ranks == std::vector{0});
  CHECK(alone.odd->by_itself);
  const auto known = compare_rechecks({1, 1, 1}, told{twice(1, 1, 3)});
  REQUIRE(known.odd);
  CHECK(known.odd->ranks == std::vector{0});
  const auto two = compare_rechecks({2, 1, 1}, told{twice(1, 1), twice(1, 2)});
  REQUIRE(two.odd);
  CHECK(two.odd->ranks == std::vector{1});
  CHECK(two.odd->by_itself);
  const auto silent = compare_rechecks({2, 1, 1}, told{twice(2, 2, 1), twice(1, 1)});
  REQUIRE(silent.odd);  // it has no voice about the other one
  CHECK(silent.odd->ranks == std::vector{0});
  CHECK_FALSE(compare_rechecks({1, 1, 1}, told{twice(1, 1)}).odd);
}

TEST_CASE("RCK-2: rechecks: of two that differ alike each time, nobody is named") {
  const auto v = compare_rechecks({2, 1, 1}, told{twice(1, 1), twice(2, 2)});
  REQUIRE(v.odd);
  CHECK(v.odd->ranks.empty());
  CHECK(v.odd->differing == std::vector{0, 1});
  const auto halves = compare_rechecks({4, 1, 1}, told{once(1), once(1), once(2), once(2)});
  REQUIRE(halves.odd);
  CHECK(halves.odd->ranks.empty());
}

TEST_CASE("RCK-1 RCK-3: rechecks: unlike devices are not held against each other") {
  const auto v = compare_rechecks({3, 1, 1}, told{once(1), once(1), once(2, 7)});
  CHECK_FALSE(v.odd);
  CHECK_FALSE(v.compared);
  CHECK(v.alone == std::vector{2});
  const auto pairs = compare_rechecks({4, 1, 1}, told{once(1), once(1), once(2, 7), once(2, 7)});
  CHECK_FALSE(pairs.odd);
  CHECK(pairs.compared);
  CHECK(pairs.alone.empty());
  const auto within =
      compare_rechecks({5, 1, 1}, told{once(1), once(1), once(3), once(2, 7), once(2, 7)});
  REQUIRE(within.odd);
  CHECK(within.odd->ranks == std::vector{2});
  CHECK(within.odd->differing == std::vector{0, 1, 2});
}

TEST_CASE("RCK-3: rechecks: who told nothing is not judged, and nobody counts as compared") {
  const auto v = compare_rechecks({3, 1, 1}, told{once(1), {}, once(1)});
  CHECK_FALSE(v.compared);
  CHECK_FALSE(v.odd);
  recheck_result shorter = once(1);
  shorter.digests.pop_back();  // of another program
  const auto other = compare_rechecks({3, 1, 1}, told{once(1), once(1), shorter});
  CHECK_FALSE(other.odd);
  CHECK(other.alone == std::vector{2});
}

TEST_CASE("rechecks: of several stages each one's are named, unless somewhere nobody knows") {
  const auto both =
      compare_rechecks({3, 1, 2}, told{once(1), once(1), once(3), once(3), once(2), once(3)});
  REQUIRE(both.odd);
  CHECK(both.odd->ranks == std::vector{2, 4});
  const auto unknown =
      compare_rechecks({2, 1, 2}, told{twice(1, 1), twice(3, 4), twice(2, 2), twice(3, 3)});
  REQUIRE(unknown.odd);
  CHECK(unknown.odd->ranks.empty());
}
