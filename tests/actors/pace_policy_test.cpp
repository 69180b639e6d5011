// What a checkpoint that is due meets: room, or two older ones.
#include "actors/checkpoint/pace_policy.hpp"

#include <doctest/doctest.h>

using troupe::checkpoint::pace_policy;
using troupe::config::when_busy;
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
    CHECK(p.at_step_end(how, false, false) == verdict::none);
    CHECK(p.at_step_end(how, true, false) == verdict::begin);
    CHECK(p.at_step_end(how, false, true) == verdict::begin);
  }
  p.begun(1);
  CHECK(p.at_step_end(when_busy::skip, true, false) == verdict::begin);
  p.begun(2);
  CHECK_FALSE(p.has_room());
  p.ended(1);
  CHECK(p.has_room());
  CHECK(p.open() == std::set<uint64_t>{2});
}

TEST_CASE("PAC-1 without room: waits, is left out and counted, or comes later") {
  auto blocks = full();
  CHECK(blocks.at_step_end(when_busy::block, true, false) == verdict::wait);
  CHECK(blocks.skipped() == 0);

  auto skips = full();
  CHECK(skips.at_step_end(when_busy::skip, true, false) == verdict::skip);
  CHECK(skips.at_step_end(when_busy::skip, true, false) == verdict::skip);
  CHECK(skips.skipped() == 2);
  skips.ended(2);
  CHECK(skips.at_step_end(when_busy::skip, false, false) == verdict::none);

  auto stretches = full();
  CHECK(stretches.at_step_end(when_busy::stretch, true, false) == verdict::postpone);
  CHECK(stretches.at_step_end(when_busy::stretch, false, false) == verdict::postpone);
  stretches.ended(1);
  CHECK(stretches.at_step_end(when_busy::stretch, false, false) == verdict::begin);
  stretches.begun(5);
  stretches.ended(2);
  CHECK(stretches.at_step_end(when_busy::stretch, false, false) == verdict::none);
  CHECK(stretches.skipped() == 0);
}

TEST_CASE("PAC-2 what a person asks for is never left out") {
  for (auto how : {when_busy::block, when_busy::skip, when_busy::stretch}) {
    auto p = full();
    CHECK(p.at_step_end(how, false, true) == verdict::wait);
    CHECK(p.skipped() == 0);
  }
}
