// Who is wrong among replicas, and when nobody can say.
#include "actors/health/digest_policy.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using health::compare_digests;

namespace {

using digests = std::vector<std::vector<uint64_t>>;  // by rank, by chunk

}  // namespace

TEST_CASE("digests: equal replicas are compared, and nobody is odd") {
  const auto v = compare_digests({3, 1, 1}, digests{{1, 2}, {1, 2}, {1, 2}});
  CHECK(v.compared);
  CHECK_FALSE(v.odd);
  const auto stages = compare_digests({2, 1, 2}, digests{{1, 2}, {1, 2}, {9}, {9}});
  CHECK(stages.compared);
  CHECK_FALSE(stages.odd);
}

TEST_CASE("DGS-2: digests: of three the one that differs is named, with its chunk") {
  const auto v = compare_digests({3, 1, 1}, digests{{1, 2, 3}, {1, 2, 3}, {1, 7, 3}});
  REQUIRE(v.odd);
  CHECK(v.odd->ranks == std::vector{2});
  CHECK(v.odd->differing == std::vector{0, 1, 2});
  CHECK(v.odd->chunk == 1);
  const auto first = compare_digests({3, 1, 1}, digests{{5, 2}, {1, 2}, {1, 2}});
  REQUIRE(first.odd);
  CHECK(first.odd->ranks == std::vector{0});
}

TEST_CASE("DGS-2: digests: of two, and where all differ, nobody is named") {
  const auto two = compare_digests({2, 1, 1}, digests{{1}, {2}});
  REQUIRE(two.odd);
  CHECK(two.odd->ranks.empty());
  CHECK(two.odd->differing == std::vector{0, 1});
  const auto halves = compare_digests({4, 1, 1}, digests{{1}, {1}, {2}, {2}});
  REQUIRE(halves.odd);
  CHECK(halves.odd->ranks.empty());
  // A chunk whose culprit is known does not make up for one whose is not.
  const auto both = compare_digests({4, 1, 1}, digests{{1, 5}, {1, 5}, {2, 5}, {2, 6}});
  REQUIRE(both.odd);
  CHECK(both.odd->ranks.empty());
}

TEST_CASE("digests: several ranks, in several chunks and stages, are each named once") {
  const auto v =
      compare_digests({5, 1, 1}, digests{{1, 1}, {1, 1}, {1, 1}, {2, 2}, {1, 3}});
  REQUIRE(v.odd);
  CHECK(v.odd->ranks == std::vector{3, 4});
  const auto stages = compare_digests({3, 1, 2}, digests{{1}, {1}, {2}, {4}, {3}, {3}});
  REQUIRE(stages.odd);
  CHECK(stages.odd->ranks == std::vector{2, 3});
  CHECK(stages.odd->differing == std::vector{0, 1, 2});
}

TEST_CASE("DGS-1: digests: who told nothing, or of other chunks, is not judged") {
  CHECK_FALSE(compare_digests({2, 1, 1}, digests{{}, {}}).compared);
  CHECK_FALSE(compare_digests({1, 1, 2}, digests{{1}, {2}}).compared);
  const auto missing = compare_digests({3, 1, 1}, digests{{1}, {}, {1}});
  CHECK_FALSE(missing.compared);
  CHECK_FALSE(missing.odd);
  const auto other = compare_digests({3, 1, 2}, digests{{1}, {1, 2}, {1}, {1}, {1}, {2}});
  CHECK_FALSE(other.compared);
  REQUIRE(other.odd);
  CHECK(other.odd->ranks == std::vector{5});
}
