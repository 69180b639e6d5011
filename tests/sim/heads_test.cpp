// Several heads on virtual time: one acts, the others stand by, and what befalls them.
#include <doctest/doctest.h>

#include "actors/sim/fuzz.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

TEST_CASE("heads: without faults the first one acts to the end of the job") {
  simulation_options o;
  o.heads = 3;
  o.recovers = true;
  const auto done = simulate(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
  CHECK(done->steps == 10);
  CHECK(done->takeovers == 0);
  CHECK(done->ends == std::vector<std::string>{"success"});
}

TEST_CASE("heads: random clusters and faults violate nothing") {
  constexpr uint64_t seeds = 300;
  const fuzz_options o{.first = 1, .seeds = seeds, .kinds = all_head_faults(), .heads = 3};
  const auto done = fuzz(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  if (done->failure) {
    MESSAGE(replay_command(o, done->failure->seed));
    FAIL_CHECK(done->failure->what.message);
  }
  CHECK(done->takeovers > 30);
}
