// Who stands still: counters and budgets, and what is no evidence.
#include "actors/health/stuck_policy.hpp"

#include <doctest/doctest.h>

#include "tests/actors/health/seconds.hpp"

using namespace troupe::health;

namespace {

using troupe::health::test::s;
constexpr int64_t ms = 1'000'000;

/// Two nodes with a rank each that beat every second, judged four times a second.
struct watched_job {
  stuck_policy policy{3 * s, 3 * s};
  int64_t now = 100 * s;
  uint32_t epoch = 1;
  uint64_t sequence = 0, step = 0;
  uint64_t finished[2] = {0, 0};
  double median_ms = 0;
  bool awaits_copies = false, braked = false;  ///< the latter of the second
  const char* phase = "training";

  void beat() {
    ++sequence;
    for (int rank = 0; rank < 2; ++rank)
      policy.hear(rank == 0 ? "a" : "b", epoch, sequence,
                  {{rank, finished[rank], median_ms, awaits_copies, rank == 1 && braked}}, now);
  }
  /// Time passes in which these ranks finish operations; whether it was stuck at its end.
  bool pass(double seconds, bool first = false, bool second = false) {
    stuck_policy::verdict last;
    const auto until = now + static_cast<int64_t>(seconds * 1e9);
    for (; now < until; now += 250 * ms) {
      policy.run_is(phase, step, now);
      if ((now / (250 * ms)) % 4 == 0) {
        finished[0] += first;
        finished[1] += second;
        beat();
      }
      last = policy.judge(now);
    }
    return last.stuck;
  }
  /// Its first steps are behind it.
  void train() {
    pass(2, true, true);
    for (int i = 0; i < 3; ++i) {
      ++step;
      policy.step_done(epoch, now);
      REQUIRE_FALSE(pass(2, true, true));
    }
  }
};

}  // namespace

TEST_CASE("STK-1: stuck is that nobody's counter moves, for 3 s") {
  watched_job j;
  j.train();
  CHECK_FALSE(j.pass(60, true, false));  // one moves: the other one is slow, or waits for it
  CHECK_FALSE(j.pass(60, false, true));
  CHECK_FALSE(j.pass(1.75));  // it beats once a second: it moved up to a second ago
  CHECK(j.pass(1.5));
  CHECK_FALSE(j.pass(1.5, true, false));  // it moves again
}

TEST_CASE("STK-2: a slow operation may take five times what it took before") {
  watched_job j;
  j.median_ms = 4000;
  j.train();
  CHECK_FALSE(j.pass(19));
  CHECK(j.pass(2.5));
}

TEST_CASE("STK-2: each phase has its budget, or none here") {
  struct row {
    const char* phase;
    bool copies;
    double quiet_s, stuck_s;  ///< 0: never
  };
  for (const auto& r :
       {row{"training", false, 1.75, 4.5}, row{"validating", false, 28, 33},
        row{"training", true, 58, 63}, row{"paused", false, 86'400, 0},
        row{"waiting for an older checkpoint", false, 3600, 0},
        row{"finishing checkpoints", false, 3600, 0}, row{"exporting the model", false, 3600, 0},
        row{"copying to the second tier", false, 3600, 0}, row{"recovering", false, 3600, 0},
        row{"gathering", false, 3600, 0}, row{"a phase that nobody knows", false, 3600, 0}}) {
    CAPTURE(r.phase);
    watched_job j;
    j.train();
    j.phase = r.phase;
    j.awaits_copies = r.copies;
    CHECK_FALSE(j.pass(r.quiet_s));
    if (r.stuck_s > 0) CHECK(j.pass(r.stuck_s - r.quiet_s));
  }
}

TEST_CASE("STK-2: the first step may take a minute, and so may that of a new epoch") {
  watched_job j;
  CHECK_FALSE(j.pass(58));
  CHECK(j.pass(4));
  CHECK_FALSE(j.pass(1.5, true, true));
  j.train();
  j.phase = "recovering";
  CHECK_FALSE(j.pass(600));
  j.epoch = 2;
  j.sequence = 0;
  j.phase = "training";
  CHECK_FALSE(j.pass(55));
  ++j.step;
  j.policy.step_done(1, j.now);  // a late word of the epoch before
  CHECK_FALSE(j.pass(4));
  j.policy.step_done(2, j.now);
  CHECK_FALSE(j.pass(2.5));
  CHECK(j.pass(1.5));
}

TEST_CASE("STK-2: steps that are quicker than whoever looks count, and the next has no minute") {
  watched_job j;
  j.phase = "connecting the data plane";
  CHECK_FALSE(j.pass(2, true, true));
  for (int i = 0; i < 40; ++i) {
    ++j.step;
    j.policy.step_done(1, j.now);
  }
  j.phase = "training";
  CHECK_FALSE(j.pass(2.5));
  CHECK(j.pass(1.5));
}

TEST_CASE("STK-2: after a pause the clock begins anew") {
  watched_job j;
  j.train();
  j.phase = "paused";
  CHECK_FALSE(j.pass(3600));
  j.phase = "training";
  CHECK_FALSE(j.pass(2.5));
  CHECK(j.pass(1.5));
}

TEST_CASE("a stale event makes no healthy job stuck, and hides no stuck one (DLRover #1749)") {
  watched_job j;
  j.train();
  // "A checkpoint is under way" that nobody ever takes back: a day of training beside it.
  j.awaits_copies = true;
  for (int half_hour = 0; half_hour < 48; ++half_hour) {
    ++j.step;
    CHECK_FALSE(j.pass(1800, true, true));
  }
  CHECK_FALSE(j.pass(58));
  CHECK(j.pass(4));  // it stands still: the event excuses a minute, no more
}

TEST_CASE("STK-3: what is late, of an earlier epoch or overtaken, moves nothing") {
  watched_job j;
  j.epoch = 2;
  j.train();
  j.pass(2.5);
  for (uint64_t old = 0; old < 50; ++old) {
    j.policy.hear("a", 1, 1000 + old, {{0, 5000 + old, 0, false}}, j.now);  // of the epoch before
    j.policy.hear("b", 2, 1, {{1, 7000 + old, 0, false}}, j.now);           // overtaken
  }
  CHECK(j.pass(1.5));
}

TEST_CASE("STK-4: who did not run takes nobody's silence for theirs") {
  watched_job j;
  j.train();
  j.now += 3600 * s;  // Ctrl-Z, or the machine slept
  CHECK_FALSE(j.policy.judge(j.now).stuck);
  CHECK(j.policy.silent(j.now).empty());
  CHECK_FALSE(j.pass(2));
}

TEST_CASE("silent nodes: told by how long, until they are heard, not once the run is over") {
  watched_job j;
  j.train();
  const auto silence = [&] { return j.policy.silent(j.now); };
  CHECK(silence().empty());
  for (int i = 0; i < 16; ++i) {
    j.now += 250 * ms;
    j.policy.judge(j.now);
    j.policy.hear("a", j.epoch, ++j.sequence, {{0, 1, 0, false}}, j.now);
  }
  REQUIRE(silence().size() == 1);
  CHECK(silence()[0].node == "b");
  CHECK(silence()[0].silent_ns >= 4 * s);
  j.policy.run_is("ended", j.step, j.now);
  CHECK(silence().empty());
  j.policy.run_is("training", j.step, j.now);
  j.policy.hear("b", j.epoch, ++j.sequence, {{1, 1, 0, false}}, j.now);
  CHECK(silence().empty());
}

TEST_CASE(
    "STK-5: while the brake of a power budget holds a rank nobody is stuck, and after it is") {
  watched_job j;
  j.train();
  j.braked = true;
  CHECK_FALSE(j.pass(3600));
  j.braked = false;
  CHECK_FALSE(j.pass(2));
  CHECK(j.pass(2));
}
