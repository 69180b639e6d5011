// A job that goes on for a lost head: JOB-16.
#include <doctest/doctest.h>

#include "actors/train/job_policy.hpp"
#include "tests/actors/job_harness.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::folder_of;
using troupe::train::test::job_harness;
using troupe::train::test::job_second_ns;
using troupe::train::test::mentions;
using troupe::train::test::recovering_job;
using troupe::health::time_use;

namespace {

constexpr int64_t second = job_second_ns;

/// One that has lost a node, made five steps and saved four; its head is lost eight seconds later.
job_memory left_behind() {
  job_harness job(recovering_job("", 9));
  job.policy.begin(0);
  job.start();
  for (int step = 1; step <= 3; ++step) {
    job.step();
    if (job.saving.contains(2)) job.commit(2);
  }
  job.hear(heard::node_lost{"n1", "was killed"});
  job.start();
  for (int step = 3; step <= 5; ++step) {
    job.step();
    if (job.saving.contains(4)) job.commit(4);
  }
  auto out = job.policy.memory();
  CHECK(out.account.epoch == 8);
  CHECK(out.account.incidents == 1);
  CHECK(out.account.recoveries.begun == 1);
  CHECK(out.account.recoveries.within_hour_ns.size() == 1);
  CHECK(out.account.steps_repeated == 1);
  CHECK(out.account.time.wall_ns() == out.account.at_ns);
  out.lost = lost_head{"was killed by signal 9", 5, 5, out.account.at_ns + 8 * second};
  return out;
}

job_harness next_head(const job_memory& memory) {
  job_harness job(recovering_job("", 9),
                  checkpoint::resume_point{folder_of(4), 4, {}, {4, 64, 2.5, ""}});
  job.now_ns = memory.lost->at_ns + 3 * second;
  job.policy.remember(memory);
  for (const auto& c : job.policy.begin(job.now_ns))
    if (const auto* told = std::get_if<todo::say>(&c)) job.warned.push_back(told->text);
  return job;
}

}  // namespace

TEST_CASE("JOB-16: job: what is saved stands in the account, and what is above it does not") {
  job_harness job(recovering_job("", 9));
  job.policy.begin(0);
  job.start();
  const auto before = job.policy.memory().account;
  job.step();
  CHECK(job.policy.memory().account == before);  // no step is written down
  job.step();
  job.step();  // while 2 is being written
  job.commit(2);
  const auto after = job.policy.memory().account;
  CHECK(after.time[time_use::useful] > 0);
  CHECK(after.time[time_use::repeated] > 0);  // step 3 would be made again
  CHECK(after.time.wall_ns() == after.at_ns);
  CHECK(after.steps_repeated == 0);
}

TEST_CASE("JOB-16: job: a lost head is an incident, and the account goes on") {
  const auto memory = left_behind();
  auto job = next_head(memory);
  CHECK(mentions(job.warned, "the head was killed by signal 9: recovery 2 begins (epoch 8 -> 7)"));
  REQUIRE(job.policy.incidents().size() == 1);
  const auto& fault = job.policy.incidents().back();
  CHECK(fault.number == 2);
  CHECK(fault.finding == "head_lost");
  CHECK(fault.node == "head");
  CHECK(fault.fell_after_step == 5);
  CHECK(fault.noticed_ns == memory.lost->at_ns);
  const auto begun = job.policy.ledger().whole();
  CHECK(begun[time_use::head_away] == memory.account.time[time_use::head_away] + 3 * second);
  CHECK(begun[time_use::repeated] == memory.account.time[time_use::repeated] + 8 * second);
  CHECK(begun.wall_ns() == job.now_ns);
  job.start();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 5);
  CHECK(fault.resumed_after_step == 4);
  CHECK(fault.done == "head was started again, from step-00000004");
  CHECK(job.policy.recoveries() == 2);
  CHECK(job.policy.ledger().steps_repeated() == 2);
  CHECK(job.policy.memory().account.incidents == 2);
  job.step();
  CHECK(job.policy.ledger().whole().wall_ns() == job.now_ns);
}

TEST_CASE("JOB-16: job: its start is watched by nobody, so that a lost node is recovered from") {
  auto job = next_head(left_behind());
  job.hear(job.admitted());
  job.pass();
  job.hear(heard::node_lost{"n1", "was killed"});
  CHECK(job.policy.state() == job_state::recovering);
  CHECK(job.policy.recoveries() == 3);
  CHECK(job.policy.incidents().size() == 1);  // one that goes on
}

TEST_CASE("JOB-16: job: a step that was saved and not told counts as made") {
  auto memory = left_behind();
  memory.lost->after_step = 3;
  const auto job = next_head(memory);
  CHECK(job.policy.incidents().back().fell_after_step == 4);
}

TEST_CASE("JOB-16: job: of a head that left nothing the loss alone is known") {
  job_memory memory;
  memory.lost = lost_head{"was killed by signal 9", 5, 5, 100 * second};
  auto job = next_head(memory);
  CHECK(job.policy.incidents().back().number == 1);
  CHECK(job.policy.ledger().whole().wall_ns() == 0);
  job.start();
  CHECK(job.find<todo::run_step>());
}

TEST_CASE("JOB-16: job: a pause before the head was lost is none of its repeated work") {
  job_harness job(recovering_job("", 9));
  job.policy.begin(0);
  job.start();
  job.person(heard::pause{});
  job.step();
  REQUIRE(job.policy.state() == job_state::paused);
  auto memory = job.policy.memory();
  CHECK(memory.paused);
  memory.lost = lost_head{"was killed", 1, 1, memory.account.at_ns + 500 * second};
  const auto next = next_head(memory);
  CHECK(next.policy.ledger().whole()[time_use::paused] == 500 * second);
}
