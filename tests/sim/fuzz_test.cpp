// Many seeds over many processes: that it is all the same how many, and what becomes of them.
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>

#include <doctest/doctest.h>

#include "actors/sim/fuzz.hpp"
#include "tests/errors.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

fuzz_outcome fuzz_done(const fuzz_options& o) {
  auto done = fuzz(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  return std::move(*done);
}

fuzz_options fuzz_by(seed_runner run, unsigned jobs = 3) {
  return {1, 30, {}, false, jobs, std::move(run)};
}

simulation_outcome seed_done(uint64_t seed) {
  simulation_outcome out;
  out.counts.events = seed;
  out.folders.copies = 1;
  return out;
}

bool has_children() {
  return ::waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD;
}

}  // namespace

TEST_CASE("FUZ-1: seeds come to the same in one process and in three") {
  fuzz_options o{1, 12, all_faults(), false, 1, {}};
  const auto alone = fuzz_done(o);
  o.jobs = 3;
  const auto shared = fuzz_done(o);
  CHECK(alone.events > 1000);
  CHECK(alone.faults > 0);
  CHECK(shared.events == alone.events);
  CHECK(shared.faults == alone.faults);
  CHECK(shared.folders.each() == alone.folders.each());
  CHECK(!shared.failure);
  CHECK(!has_children());
}

TEST_CASE("FUZ-1: each seed is run once, whoever takes it") {
  for (const unsigned jobs : {1u, 2u, 7u, 100u}) {
    const auto done = fuzz_done(fuzz_by(seed_done, jobs));
    CHECK(done.events == 30 * 31 / 2);
    CHECK(done.folders.copies == 30);
  }
}

TEST_CASE("FUZ-1: the first seed that fails is told, with all that it says") {
  const error full(errc::io, "the disk is full", "free some", "disk_full");
  const auto fails = [&](uint64_t seed) -> result<simulation_outcome> {
    if (seed < 9) return seed_done(seed);
    if (seed == 10) return full;
    auto out = seed_done(seed);
    out.violation = "seed " + std::to_string(seed);
    out.faults = {"one", "", "three"};
    return out;
  };
  for (const unsigned jobs : {1u, 2u, 5u}) {
    CAPTURE(jobs);
    auto o = fuzz_by(fails, jobs);
    auto done = fuzz_done(o);
    REQUIRE(done.failure);
    CHECK(done.failure->seed == 9);
    CHECK(done.failure->what == error(errc::bug, "seed 9"));
    CHECK(done.failure->faults == std::vector<std::string>{"one", "", "three"});
    o.first = 10;
    done = fuzz_done(o);
    REQUIRE(done.failure);
    CHECK(done.failure->seed == 10);
    CHECK(done.failure->what == full);
    CHECK(done.failure->faults.empty());
  }
}

TEST_CASE("FUZ-2: a process that crashes is told with the seed that it was at") {
  const auto crashes = [](uint64_t seed) -> result<simulation_outcome> {
    if (seed == 17) ::raise(SIGSEGV);
    if (seed == 23) ::_exit(3);
    return seed_done(seed);
  };
  auto o = fuzz_by(crashes, 2);
  auto done = fuzz_done(o);
  REQUIRE(done.failure);
  CHECK(done.failure->seed == 17);
  CHECK(is_error(done.failure->what, sim::process_killed, SIGSEGV));
  o.first = 18;
  done = fuzz_done(o);
  REQUIRE(done.failure);
  CHECK(done.failure->seed == 23);
  CHECK(done.failure->what == sim::process_ended(3));
  CHECK(!has_children());
}

TEST_CASE("FUZ-3: after a signal no process takes another seed") {
  const auto parent = ::getpid();
  const auto stops = [parent](uint64_t seed) -> result<simulation_outcome> {
    if (seed == 3) ::kill(parent, SIGINT);
    return seed_done(seed);
  };
  auto o = fuzz_by(stops);
  o.seeds = 1'000'000'000;
  const auto done = fuzz_done(o);
  CHECK(done.signal == SIGINT);
  CHECK(!done.failure);
  CHECK(!has_children());
}

TEST_CASE("FUZ-3: a second signal ends processes that do not come to an end") {
  const auto parent = ::getpid();
  const auto hangs = [parent](uint64_t seed) -> result<simulation_outcome> {
    if (seed == 1) {
      ::kill(parent, SIGINT);
      ::kill(parent, SIGTERM);
    }
    for (;;) ::pause();
  };
  const auto done = fuzz_done(fuzz_by(hangs));
  CHECK(done.signal != 0);
  CHECK(!has_children());
}

TEST_CASE("FUZ-3: whoever calls may be killed, and nothing is left") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t caller = ::fork();
  REQUIRE(caller >= 0);
  if (caller == 0) {
    ::close(ends[0]);
    const auto tells = [&](uint64_t) -> result<simulation_outcome> {
      (void)!::write(ends[1], "x", 1);
      for (;;) ::pause();
    };
    (void)fuzz(fuzz_by(tells, 2));
    ::_exit(0);
  }
  ::close(ends[1]);
  char told[2];
  CHECK(::read(ends[0], told, 1) == 1);
  CHECK(::read(ends[0], told, 1) == 1);
  ::kill(caller, SIGKILL);
  CHECK(::waitpid(caller, nullptr, 0) == caller);
  CHECK(::read(ends[0], told, 1) == 0);  // nobody has the other end any more
  ::close(ends[0]);
}
