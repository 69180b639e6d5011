// What the pace lets begin, and when.
#include "actors/train/op_gate.hpp"

#include <doctest/doctest.h>

#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

constexpr action forward(int number) {
  return {pipeline_op::forward, number, 0};
}

/// The numbers of what begins now.
std::vector<int> begins(op_gate& gate, int64_t now_ns) {
  std::vector<int> out;
  while (const auto a = gate.next(now_ns)) out.push_back(a->micro_batch);
  return out;
}

}  // namespace

TEST_CASE("OPG-3: at full speed all that is put in begins at once, in its order") {
  op_gate gate;
  gate.begin_pass({});
  for (int i = 0; i < 3; ++i) gate.put(forward(i));
  CHECK(begins(gate, 100) == std::vector{0, 1, 2});
  CHECK(gate.empty());
  gate.ended(50, 150);
  gate.put(forward(3));
  CHECK(begins(gate, 150) == std::vector{3});
  CHECK(!gate.opens_ns());
  CHECK(gate.waited_ns() == 0);
}

TEST_CASE(
    "OPG-1, OPG-2: below full speed one begins, and the next once its stretched time is over") {
  op_gate gate;
  gate.begin_pass({512});
  for (int i = 0; i < 3; ++i) gate.put(forward(i));
  CHECK(begins(gate, 1000) == std::vector{0});
  CHECK(begins(gate, 1050).empty());  // it is under way
  CHECK(!gate.opens_ns());
  gate.ended(100, 1100);  // computed all the time: as long again
  CHECK(begins(gate, 1100).empty());
  CHECK(gate.opens_ns() == 1200);
  CHECK(begins(gate, 1199).empty());
  CHECK(begins(gate, 1200) == std::vector{1});
  CHECK(gate.waited_ns() == 100);
  gate.ended(10, 1500);  // 290 of 300 it waited for others: that is not stretched
  CHECK(begins(gate, 1509).empty());
  CHECK(begins(gate, 1510) == std::vector{2});
  CHECK(gate.waited_ns() == 101);  // 1509 was the first look
}

TEST_CASE(
    "OPG-2: what is left of an operation's time holds from pass to pass, also to a faster one") {
  op_gate gate;
  gate.begin_pass({256});
  gate.put(forward(0));
  CHECK(begins(gate, 0) == std::vector{0});
  gate.put(forward(1));
  gate.ended(100, 100);
  gate.begin_pass({});
  gate.put(forward(2));
  CHECK(begins(gate, 150).empty());
  CHECK(gate.opens_ns() == 400);
  CHECK(begins(gate, 400) == std::vector{2});  // and 1 is forgotten
  CHECK(gate.waited_ns() == 250);
}

TEST_CASE("op gate: a pace beyond its range is brought into it") {
  op_gate gate;
  for (const int pace : {0, -7, 4096}) {
    gate.begin_pass({pace});
    CHECK(gate.pace() >= work_pace_policy::least_pace);
    CHECK(gate.pace() <= work_pace{});
  }
}

TEST_CASE("OPG-2: over drawn operations a rank computes for its pace's share of the time") {
  sim::rng random(18);
  for (int round = 0; round < 200; ++round) {
    const work_pace pace{static_cast<int>(52 + random.below(972))};
    op_gate gate;
    gate.begin_pass(pace);
    int64_t now = 0, computed = 0;
    for (int i = 0; i < 50; ++i) {
      gate.put(forward(i));
      if (begins(gate, now).empty()) {
        REQUIRE(gate.opens_ns());
        CHECK(*gate.opens_ns() > now);
        now = *gate.opens_ns();
        REQUIRE(begins(gate, now).size() == 1);
      }
      const auto took = static_cast<int64_t>(1'000'000 + random.below(1'000'000));
      now += took;
      computed += took;
      gate.ended(took, now);
    }
    CHECK(gate.waited_ns() > 0);
    gate.put(forward(50));
    CHECK(begins(gate, now).empty());
    const auto whole = static_cast<double>(*gate.opens_ns());
    CHECK(static_cast<double>(computed) / whole == doctest::Approx(pace.share()).epsilon(1e-4));
  }
}

TEST_CASE(
    "OPG-4: under the brake nothing begins, from pass to pass, and that counts as held back") {
  for (const int pace : {1024, 512}) {
    CAPTURE(pace);
    op_gate gate;
    gate.begin_pass({pace});
    gate.put(forward(0));
    CHECK(begins(gate, 100) == std::vector{0});
    gate.brake(true);
    CHECK(gate.brakes());
    gate.ended(0, 150);
    gate.put(forward(1));
    CHECK(begins(gate, 150).empty());
    CHECK(!gate.opens_ns());  // no time opens it
    gate.brake(false);
    CHECK(begins(gate, 950) == std::vector{1});
    CHECK(gate.waited_ns() == 800);
    gate.ended(0, 1000);
    gate.brake(true);
    gate.begin_pass({pace});
    gate.put(forward(2));
    CHECK(begins(gate, 2000).empty());
    gate.brake(false);
    CHECK(begins(gate, 2500) == std::vector{2});
    CHECK(gate.waited_ns() == 500);
  }
}

TEST_CASE("OPG-5: where a brake may come two are under way at most, and one below full speed") {
  op_gate gate;
  gate.may_brake(true);
  gate.begin_pass({});
  for (int i = 0; i < 4; ++i) gate.put(forward(i));
  CHECK(begins(gate, 0) == std::vector{0, 1});
  gate.ended(10, 10);
  CHECK(begins(gate, 10) == std::vector{2});
  gate.brake(true);
  gate.ended(10, 20);
  gate.ended(10, 30);
  CHECK(begins(gate, 30).empty());
  gate.brake(false);
  CHECK(begins(gate, 40) == std::vector{3});
  CHECK(gate.waited_ns() == 10);
  gate.ended(10, 45);
  gate.begin_pass({512});
  for (int i = 0; i < 2; ++i) gate.put(forward(i));
  CHECK(begins(gate, 50) == std::vector{0});
}

TEST_CASE("OPG-5: what is still at the device of a pass that failed counts until it has ended") {
  op_gate gate;
  gate.may_brake(true);
  gate.begin_pass({});
  for (int i = 0; i < 3; ++i) gate.put(forward(i));
  CHECK(begins(gate, 0) == std::vector{0, 1});
  gate.ended(0, 10);  // it is what has failed
  gate.begin_pass({});
  for (int i = 5; i < 8; ++i) gate.put(forward(i));
  CHECK(begins(gate, 20) == std::vector{5});
  gate.ended(0, 30);
  CHECK(begins(gate, 30) == std::vector{6});
  gate.begin_pass({512});
  gate.put(forward(9));
  gate.ended(0, 40);
  CHECK(begins(gate, 40).empty());  // one of those two is left
  gate.ended(0, 50);
  CHECK(begins(gate, 50) == std::vector{9});
}

TEST_CASE("OPG-6: where something else makes the device slower a pace holds nothing back") {
  op_gate gate;
  gate.stretches(false);
  gate.begin_pass({512});
  for (int i = 0; i < 2; ++i) gate.put(forward(i));
  CHECK(begins(gate, 1000) == std::vector{0, 1});
  gate.ended(100, 1100);
  gate.put(forward(2));
  CHECK(begins(gate, 1100) == std::vector{2});
  CHECK(gate.pace() == work_pace{512});
  CHECK(gate.waited_ns() == 0);
  gate.brake(true);
  gate.put(forward(3));
  CHECK(begins(gate, 1200).empty());  // OPG-4
}

TEST_CASE("OPG-7: a start that is held back holds the first operation, once, at any pace") {
  for (const auto pace : {work_pace{}, work_pace{512}}) {
    CAPTURE(pace.of_1024);
    op_gate gate;
    gate.begin_pass(pace, 1500);
    CHECK(gate.starts_late());
    gate.put(forward(0));
    gate.put(forward(1));
    CHECK(begins(gate, 1000).empty());
    CHECK(gate.opens_ns() == 1500);
    CHECK(begins(gate, 1499).empty());
    CHECK(begins(gate, 1500).front() == 0);
    CHECK(!gate.starts_late());
    CHECK(gate.waited_ns() == 500);
    gate.begin_pass({});
    gate.ended(0, 1500);
    gate.ended(0, 1500);
    gate.put(forward(2));
    CHECK(begins(gate, 1500) == std::vector{2});
    CHECK(gate.waited_ns() == 0);
  }
}

TEST_CASE("OPG-7: the brake holds a start that is held back for as long as it is on") {
  op_gate gate;
  gate.begin_pass({}, 1500);
  gate.put(forward(0));
  gate.brake(true);
  CHECK(begins(gate, 1000).empty());
  CHECK(!gate.opens_ns());
  CHECK(begins(gate, 1600).empty());
  gate.brake(false);
  CHECK(begins(gate, 1700) == std::vector{0});
  CHECK(gate.waited_ns() == 700);
}
