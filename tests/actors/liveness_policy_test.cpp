// Heartbeats in, verdicts out: a table of silences.
#include "actors/cluster/liveness_policy.hpp"

#include <doctest/doctest.h>

using namespace troupe::cluster;

TEST_CASE("LIV-1: silence makes suspect, then dead, each told once, a beat heals a suspect only") {
  liveness_policy p(3, 10);
  p.heard("a", 0);
  p.heard("b", 0);
  CHECK(p.judge(2).empty());
  p.heard("b", 2);
  auto c = p.judge(3);
  REQUIRE(c.size() == 1);
  CHECK(c[0].node == "a");
  CHECK(c[0].state == liveness::suspect);
  CHECK(c[0].silent_ns == 3);
  CHECK(p.judge(4).empty());
  p.heard("a", 5);
  c = p.judge(6);
  REQUIRE(c.size() == 2);
  CHECK(c[0].state == liveness::alive);
  CHECK(c[1].state == liveness::suspect);
  c = p.judge(9);
  REQUIRE(c.size() == 1);
  CHECK(c[0].state == liveness::suspect);  // a again
  CHECK(p.judge(11).empty());
  c = p.judge(12);
  REQUIRE(c.size() == 1);
  CHECK(c[0].node == "b");
  CHECK(c[0].state == liveness::dead);
  c = p.judge(15);
  REQUIRE(c.size() == 1);
  CHECK(c[0].state == liveness::dead);
  p.heard("a", 16);
  CHECK(p.judge(17).empty());
}

TEST_CASE(
    "LIV-1, LIV-2: a lost link is death at once; the unknown and the departed are not judged") {
  liveness_policy p(3, 10);
  p.link_lost("ghost");
  CHECK(p.judge(100).empty());
  p.heard("a", 0);
  p.link_lost("a");
  auto c = p.judge(1);
  REQUIRE(c.size() == 1);
  CHECK(c[0].state == liveness::dead);
  CHECK(c[0].silent_ns == 0);
  p.heard("b", 1);
  p.left("b");
  CHECK(p.judge(1000).empty());
}

TEST_CASE("LIV-3: whoever did not run for a while takes nobody's silence for death") {
  liveness_policy p(3, 10);
  p.heard("a", 0);
  CHECK(p.judge(2).empty());
  CHECK(p.judge(50).empty());  // stopped from 2 on: what was sent meanwhile is yet to be read
  auto c = p.judge(52);
  REQUIRE(c.size() == 1);
  CHECK(c[0].state == liveness::suspect);  // the silence before it and since counts
  CHECK(p.judge(54).empty());
  CHECK(p.judge(57).empty());
  c = p.judge(59);
  REQUIRE(c.size() == 1);
  CHECK(c[0].state == liveness::dead);
}
