// What a person reads of saves that fail at each step.
#include "actors/train/failed_saves_policy.hpp"

#include <doctest/doctest.h>

#include "tests/actors/job_harness.hpp"

using namespace troupe;
using namespace troupe::train;
using namespace troupe::train::test;

TEST_CASE("FSV-1: job: saves that fail alike are told once, then by number, and none is lost") {
  auto plan = planned_job("room_wait_s = 60\n", "");
  plan.job.checkpoint.every = 1;
  plan.job.train.steps = 8;
  job_harness job(plan);
  job.start();
  for (uint64_t step = 1; step <= 3; ++step) {
    job.step();
    job.lose_save(step);
  }
  auto mended = job;
  REQUIRE(job.warned.size() == 1);
  CHECK(mentions(job.warned, "checkpoint of step 1 failed: no space left on device"));
  job.step();
  job.lose_save(4, "input/output error");  // another cause
  CHECK(job.warned.back() == "checkpoint of step 4 failed, as 2 before it did: input/output error");
  job.step();
  job.lose_save(5);
  CHECK(job.warned.size() == 2);
  job.now_ns += failed_saves_policy::quiet_ns;
  job.step();
  job.lose_save(6);
  CHECK(job.warned.back() ==
        "checkpoint of step 6 failed, as 1 before it did: no space left on device");
  job.step();
  job.lose_save(7);
  CHECK(job.warned.size() == 3);
  job.step();
  job.lose_save(8);  // the last
  CHECK(mentions(job.warned, "checkpoint of step 8 failed, as 1 before it did: "));
  CHECK(mentions(job.warned, "waits for room in /first"));
  CHECK(mentions(job.warned, "a second one a second later ends it without"));
  const auto warned = job.warned.size();
  job.hear(heard::stop{"stopped by SIGTERM", true});
  CHECK(job.policy.state() == job_state::waiting);
  REQUIRE(job.warned.size() == warned + 1);
  CHECK(job.warned.back().find("goes on waiting for room: a first Ctrl-C or SIGTERM") !=
        std::string::npos);

  mended.step();
  mended.commit(4);
  CHECK(mended.warned.back() == "2 further checkpoints failed as the one did that a warning names");
}
