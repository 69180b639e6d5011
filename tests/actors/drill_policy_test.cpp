// Which drill acts when, in rows.
#include "actors/train/drill_policy.hpp"

#include <doctest/doctest.h>

#include "io/config/drills.hpp"

using troupe::config::drill_kind;
using troupe::config::drill_spec;
using troupe::train::drill_policy;

namespace {

drill_spec drill_of(const char* who, int64_t from_step, int64_t every = 0) {
  return {who, drill_kind::hang, from_step, every, 0};
}

/// The steps of these in which the first drill acts, in the order in which they are ordered.
std::vector<uint64_t> acts_in(drill_policy policy, const std::vector<uint64_t>& ordered) {
  std::vector<uint64_t> out;
  for (const auto step : ordered)
    if (!policy.begin_step(step).empty()) out.push_back(step);
  return out;
}

using steps = std::vector<uint64_t>;

}  // namespace

TEST_CASE("DRL-1: drills: one acts in the first making of each step that it falls due in") {
  struct row {
    int64_t from_step, every;
    uint64_t furthest;
    steps ordered, acts;
  };
  for (const auto& r : {
           row{3, 0, 0, {1, 2, 3, 4, 5}, {3}},
           row{1, 0, 0, {1, 2}, {1}},
           row{3, 0, 0, {1, 2, 3, 1, 2, 3, 4}, {3}},        // made again
           row{3, 0, 0, {1, 2, 3, 4, 5, 3, 4, 5, 6}, {3}},  // found later
           row{3, 2, 0, {1, 2, 3, 4, 5, 6, 7, 8}, {3, 5, 7}},
           row{3, 2, 0, {3, 4, 5, 3, 4, 5, 6, 7}, {3, 5, 7}},  // and goes on behind
           row{1, 1, 0, {1, 2, 1, 2, 3}, {1, 2, 3}},
           row{3, 0, 3, {4, 5}, {}},  // ordered by a head before
           row{3, 0, 2, {3}, {3}},
           row{3, 4, 8, {5, 6, 7, 8, 9, 10, 11}, {11}},
           row{3, 0, 0, {5, 6}, {}},  // the job begins behind it
           row{3, 2, 0, {5, 6, 7}, {5, 7}},
           row{1, 1'000'000'000, 0, {1, 2}, {1}},
       }) {
    CAPTURE(r.from_step);
    CAPTURE(r.every);
    CAPTURE(r.furthest);
    CHECK(acts_in(drill_policy({drill_of("rank 0", r.from_step, r.every)}, r.furthest),
                  r.ordered) == r.acts);
  }
}

TEST_CASE("drills: several may act in one step, each by its number") {
  drill_policy policy({drill_of("rank 0", 2), drill_of("rank 1", 1), drill_of("rank 2", 1, 1)});
  CHECK(policy.begin_step(1) == std::vector<size_t>{1, 2});
  CHECK(policy.begin_step(2) == std::vector<size_t>{0, 2});
  CHECK(policy.begin_step(2).empty());
}

TEST_CASE("DRL-2: drills: what is left for a rank falls due behind the furthest step") {
  drill_policy policy({drill_of("rank 1", 3), drill_of("rank 1", 4, 5), drill_of("rank 1", 20)});
  const auto left = [&] { return policy.left_for(1, "node1"); };
  CHECK(left() == policy.all());
  for (uint64_t step = 1; step <= 4; ++step) policy.begin_step(step);
  CHECK(left() == std::vector{drill_of("rank 1", 9, 5), drill_of("rank 1", 20)});
  // A rank that is built then, and makes steps 2 to 9, does what a rank of old would do in 9.
  drill_policy anew(left());
  for (uint64_t step = 2; step <= 8; ++step) CHECK(anew.begin_step(step).empty());
  CHECK(anew.begin_step(9) == std::vector<size_t>{0});
  for (uint64_t step = 5; step <= 20; ++step) policy.begin_step(step);
  CHECK(left() == std::vector{drill_of("rank 1", 24, 5)});
  drill_policy rare({drill_of("rank 1", 1, 1'000'000'000)}, 1);
  CHECK(rare.left_for(1, "").empty());  // no configuration has such a step
}

TEST_CASE("DRL-3: drills: a rank has those of its number, and of the node that it is on then") {
  const drill_policy policy({drill_of("rank 1", 1), drill_of("node1", 2), drill_of("rank 11", 3)});
  CHECK(policy.left_for(1, "node4") == std::vector{drill_of("rank 1", 1)});
  CHECK(policy.left_for(2, "node1") == std::vector{drill_of("node1", 2)});
  CHECK(policy.left_for(1, "node1").size() == 2);
  CHECK(policy.left_for(0, "node0").empty());
}
