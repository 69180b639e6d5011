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

namespace {

using troupe::config::liveness_detector;

/// Beats of node "a" in ms, judged every 10 ms; what was judged at the end, and when it died.
struct beaten {
  liveness_policy policy;
  int64_t now = 0, died = -1;
  liveness state = liveness::alive;

  explicit beaten(liveness_detector d) : policy(300, 1000, d) {}
  void pass(int64_t ms) {
    for (const auto until = now + ms; now < until; now += 10)
      for (const auto& c : policy.judge(now)) {
        state = c.state;
        if (c.state == liveness::dead) died = now;
      }
  }
  /// Beats after so many milliseconds each, over and over.
  void beat(const std::vector<int64_t>& intervals, int times) {
    policy.heard("a", now);
    for (int i = 0; i < times; ++i)
      for (const auto ms : intervals) {
        pass(ms);
        policy.heard("a", now);
      }
  }
};

}  // namespace

TEST_CASE(
    "LIV-4: a steady node is suspected as early as its beats allow, and dead after its time") {
  struct row {
    const char* what;
    liveness_detector detector;
    std::vector<int64_t> beats;
    int64_t silent;
    liveness wanted;
  };
  const auto fixed = liveness_detector::fixed, phi = liveness_detector::phi;
  for (const auto& r :
       {row{"fixed: quiet for less than suspect_after", fixed, {100}, 290, liveness::alive},
        row{"fixed: for more", fixed, {100}, 320, liveness::suspect},
        row{"phi: a beat late", phi, {100}, 200, liveness::alive},
        row{"phi: steady beats make silence tell early", phi, {100}, 270, liveness::suspect},
        row{"phi: jitter makes it tell later", phi, {50, 350, 100, 300}, 500, liveness::alive},
        row{"phi: but it tells", phi, {50, 350, 100, 300}, 950, liveness::suspect},
        row{"phi: a short stop is no death", phi, {100}, 980, liveness::suspect},
        row{"phi: death comes after dead_after", phi, {100}, 1020, liveness::dead},
        row{"phi: irregular beats are waited for", phi, {100, 900}, 1500, liveness::alive},
        row{"phi: with doubt", phi, {100, 900}, 2900, liveness::suspect},
        row{"phi: and not for ever", phi, {100, 900}, 3020, liveness::dead}}) {
    CAPTURE(r.what);
    beaten b(r.detector);
    b.beat(r.beats, 10);
    b.pass(r.silent);
    CHECK(b.state == r.wanted);
  }
}

TEST_CASE("LIV-4: a stop shorter than dead_after heals, and few beats are judged as fixed") {
  for (const auto d : {liveness_detector::fixed, liveness_detector::phi}) {
    beaten b(d);
    b.beat({100}, 20);
    b.pass(900);  // kill -STOP
    CHECK(b.state == liveness::suspect);
    b.beat({100}, 20);  // kill -CONT
    CHECK(b.state == liveness::alive);
    CHECK(b.died == -1);
    b.pass(3100);
    CHECK(b.state == liveness::dead);
  }
  beaten b(liveness_detector::phi);
  b.beat({100}, 3);
  b.pass(290);
  CHECK(b.state == liveness::alive);
  b.pass(30);
  CHECK(b.state == liveness::suspect);
  b.pass(700);
  CHECK(b.state == liveness::dead);
}

TEST_CASE("LIV-4: a clock that jumps judges nobody: the jump is the judge's own") {
  beaten b(liveness_detector::phi);
  b.beat({100}, 20);
  b.now += 50'000;
  b.pass(100);
  CHECK(b.state == liveness::alive);
  b.policy.heard("a", b.now - 40'000);  // back again
  b.policy.heard("a", b.now);
  b.pass(200);
  CHECK(b.died == -1);
}
