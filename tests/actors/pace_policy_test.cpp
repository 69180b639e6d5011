// What a checkpoint that is due meets: room, or two older ones.
#include "actors/train/pace_policy.hpp"

#include <doctest/doctest.h>

using troupe::config::when_busy;
using troupe::train::pace_policy;
using verdict = pace_policy::verdict;

namespace {

pace_policy full() {
  pace_policy p;
  p.begun(1);
  p.begun(2);
  return p;
}

}  // namespace

TEST_CASE("pace: what is due begins while there is room, and only what is due") {
  pace_policy p;
  for (auto how : {when_busy::block, when_busy::skip, when_busy::stretch}) {
    CHECK(p.at_step_end(5, 2, how, false) == verdict::none);
    CHECK(p.at_step_end(4, 2, how, false) == verdict::begin);
    CHECK(p.at_step_end(5, 2, how, true) == verdict::begin);
  }
  p.begun(1);
  CHECK(p.at_step_end(4, 2, when_busy::skip, false) == verdict::begin);
  p.begun(2);
  CHECK_FALSE(p.has_room());
  p.ended(1);
  CHECK(p.has_room());
  CHECK(p.open() == std::set<uint64_t>{2});
}

TEST_CASE("pace: every step, every third, and never by itself") {
  pace_policy p;
  for (uint64_t step = 1; step <= 9; ++step) {
    CHECK(p.at_step_end(step, 1, when_busy::block, false) == verdict::begin);
    CHECK((p.at_step_end(step, 3, when_busy::block, false) == verdict::begin) == (step % 3 == 0));
    CHECK(p.at_step_end(step, 0, when_busy::block, false) == verdict::none);
  }
}

TEST_CASE("PAC-1 without room: waits, is left out and counted, or comes later") {
  auto blocks = full();
  CHECK(blocks.at_step_end(4, 2, when_busy::block, false) == verdict::wait);
  CHECK(blocks.skipped() == 0);

  auto skips = full();
  CHECK(skips.at_step_end(4, 2, when_busy::skip, false) == verdict::skip);
  CHECK(skips.at_step_end(4, 2, when_busy::skip, false) == verdict::skip);
  CHECK(skips.skipped() == 2);
  skips.ended(2);
  CHECK(skips.at_step_end(5, 2, when_busy::skip, false) == verdict::none);

  auto stretches = full();
  CHECK(stretches.at_step_end(4, 2, when_busy::stretch, false) == verdict::postpone);
  CHECK(stretches.at_step_end(5, 2, when_busy::stretch, false) == verdict::postpone);
  stretches.ended(1);
  CHECK(stretches.at_step_end(5, 2, when_busy::stretch, false) == verdict::begin);
  stretches.begun(5);
  stretches.ended(2);
  CHECK(stretches.at_step_end(5, 2, when_busy::stretch, false) == verdict::none);
  CHECK(stretches.skipped() == 0);
}

TEST_CASE("PAC-2 what a person asks for is never left out") {
  for (auto how : {when_busy::block, when_busy::skip, when_busy::stretch}) {
    auto p = full();
    CHECK(p.at_step_end(5, 2, how, true) == verdict::wait);
    CHECK(p.skipped() == 0);
  }
}
