// Evidence: what has gone counts for a while, and no longer.
#include "actors/health/evidence_policy.hpp"

#include <doctest/doctest.h>

#include "tests/actors/health/seconds.hpp"

using namespace troupe::health;

namespace {

using troupe::health::test::s;

finding it_was_frozen(const std::string& node) {
  return {{finding_name::frozen_process, node}, {4, 3, "s", "it sends no heartbeats"}, 1 * s};
}

}  // namespace

TEST_CASE("EVI-1: a finding that has gone is evidence for a while, the last that went first") {
  evidence_policy e(10 * s);
  e.cleared({it_was_frozen("a")}, 100 * s);
  e.cleared({it_was_frozen("b")}, 105 * s);
  auto all = e.lately(110 * s);
  REQUIRE(all.size() == 2);
  CHECK(all[0].what.who.node == "b");
  CHECK(all[1].gone_ns == 100 * s);
  all = e.lately(111 * s);
  REQUIRE(all.size() == 1);
  CHECK(all[0].what.who.node == "b");
  CHECK(e.lately(116 * s).empty());
}

TEST_CASE("EVI-1: a graph is evidence while the training stands as it did then, and for a while") {
  evidence_policy e(10 * s);
  CHECK(e.graph(0) == nullptr);
  e.still_stuck(5 * s);  // nobody was named
  CHECK(e.graph(6 * s) == nullptr);
  e.named({"text", "{}", "digraph", 9 * s}, 10 * s);
  for (int64_t t = 11; t < 60; ++t) e.still_stuck(t * s);
  REQUIRE(e.graph(69 * s) != nullptr);
  CHECK(e.graph(69 * s)->asked_ns == 9 * s);
  CHECK(e.graph(70 * s) == nullptr);
  e.still_stuck(80 * s);  // of another standstill that one says nothing
  CHECK(e.graph(80 * s) == nullptr);
}

TEST_CASE("EVI-2: of findings that have gone no more are kept than may stand") {
  evidence_policy e(10 * s);
  for (int i = 0; i < 1000; ++i) e.cleared({it_was_frozen(std::to_string(i))}, s);
  const auto all = e.lately(2 * s);
  REQUIRE(all.size() == findings_policy::most_findings);
  CHECK(all[0].what.who.node == "999");
}
