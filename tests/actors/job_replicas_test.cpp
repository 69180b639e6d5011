// A job whose nodes are enough for fewer replicas, and for more again (JOB-19).
#include <doctest/doctest.h>

#include "tests/actors/job_harness.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::job_harness;
using troupe::train::test::job_of_two_replicas;
using enum troupe::train::job_state;

namespace {

job_harness with_two_replicas(uint64_t steps, int64_t copies_every = 0) {
  auto plan = job_of_two_replicas();
  plan.job.checkpoint.memory.every = copies_every;
  job_harness job(plan);
  job.start();
  for (uint64_t step = 1; step <= steps; ++step) {
    job.step();
    if (job.saving.contains(step)) job.commit(step);
  }
  return job;
}

/// Node n1 is lost, and so many replicas go on.
void go_on_with(job_harness& job, uint32_t replicas) {
  job.hear(heard::node_lost{"n1", "was killed"});
  job.hear(job.admitted(replicas));
  while (job.find<todo::ask>()) job.pass();
}

const heard::release more{"", "there are nodes for 2 of 2 replicas", true};

}  // namespace

TEST_CASE("JOB-19: job: it goes on with as many replicas as it is told, from the disk") {
  auto job = with_two_replicas(3, 1);
  REQUIRE(job.policy.replicas() == 2);
  job.hear(heard::node_lost{"n1", "was killed"});
  job.hear(job.admitted(1));
  REQUIRE(job.find<todo::ask>());
  CHECK(job.find<todo::ask>()->phase == start_phase::open_folder);  // JOB-14: no copies
  CHECK(job.policy.replicas() == 1);
  CHECK(job.policy.replicas_configured() == 2);
  CHECK(job.policy.plan().ranks.size() == 1);
  CHECK(job.policy.plan().micro_batches == 2);
  const auto sent = config::parse(job.policy.config_toml(), "sent");
  REQUIRE_MESSAGE(sent, (sent ? "" : render(sent.error())));
  CHECK(sent->parallel.data == 1);
  while (job.find<todo::ask>()) job.pass();
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 3);
  CHECK(job.policy.incidents().back().done.starts_with("going on with 1 of 2 replicas"));
  CHECK(job.said.end() != std::find(job.said.begin(), job.said.end(),
                                    "recovery 1 (epoch 7 -> 8): going on with 1 of 2 replicas"));
  job.step();
  REQUIRE(job.find<todo::report>());
  CHECK(job.find<todo::report>()->step.replicas == 1);
  CHECK_FALSE(job.find<todo::copy_state>());  // one node keeps no copies
}

TEST_CASE("JOB-19: job: with all replicas again, and copies that are of those") {
  auto job = with_two_replicas(3, 1);
  go_on_with(job, 1);
  job.hear(more);
  job.step();
  REQUIRE(job.saving.contains(3));
  job.commit(3);
  REQUIRE(job.find<todo::recover>());
  job.hear(job.admitted(2));
  while (job.find<todo::ask>()) job.pass();
  CHECK(job.policy.replicas() == 2);
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 4);
  job.step();
  REQUIRE(job.find<todo::save>());  // it takes a copy along
  CHECK(job.find<todo::save>()->copy);
  CHECK(job.policy.incidents().back().finding == "more_replicas");
  CHECK(job.policy.incidents().back().done.starts_with("going on with 2 of 2 replicas"));
  CHECK(job.policy.recoveries() == 2);
}

TEST_CASE("JOB-19: job: for more replicas no step is made again: the state is saved before") {
  auto job = with_two_replicas(2);
  go_on_with(job, 1);
  job.hear(more);
  CHECK(job.policy.state() == stepping);
  job.step();
  REQUIRE(job.saving.contains(3));  // no save is due
  CHECK(job.policy.state() == paused);

  auto failing = job;
  job.commit(3);
  CHECK(job.policy.state() == recovering);

  failing.lose_save(3);
  CHECK(failing.policy.state() == stepping);
  CHECK(failing.policy.pauses().empty());
  CHECK(failing.policy.replicas() == 1);
  CHECK(failing.warned.back() ==
        "there are nodes for 2 of 2 replicas, but it goes on with 1 until it has saved");
  failing.hear(more);  // it is asked again
  failing.step();
  failing.commit(4);
  CHECK(failing.policy.state() == recovering);
}

TEST_CASE("JOB-19: job: growing costs no budget, and is left where no step follows") {
  auto plan = job_of_two_replicas("", 4);
  plan.job.recovery.most_per_hour = 1;
  job_harness job(plan);
  job.start();
  for (int i = 0; i < 2; ++i) job.step();
  job.commit(2);
  go_on_with(job, 1);
  job.hear(more);
  job.step();
  job.commit(3);
  REQUIRE(job.policy.state() == recovering);
  job.hear(job.admitted(2));
  while (job.find<todo::ask>()) job.pass();
  job.hear(more);
  job.step();
  CHECK(job.policy.state() == settling);
  job.commit(4);
  REQUIRE(job.end);
  CHECK(job.end->code == errc::none);
}

TEST_CASE("JOB-19: job: what persons have set holds with any number of replicas") {
  auto job = with_two_replicas(2);
  job.person(heard::set_value{0, "train.lr", "0.5"});
  job.step();
  job.person(heard::set_value{0, "checkpoint.every", "3"});
  go_on_with(job, 1);
  job.step();  // the third again
  job.step();
  CHECK(job.policy.plan().job.checkpoint.every == 3);
  CHECK(job.policy.plan().job.train.lr == 0.5);
  CHECK(job.policy.replicas() == 1);
  CHECK(job.policy.plan().job.cluster.node.size() == 1);
  job.person(heard::set_value{0, "train.lr", "0.25"});
  job.step();
  CHECK(job.policy.plan().job.train.lr == 0.25);
  CHECK(job.policy.replicas() == 1);
}

TEST_CASE("JOB-19: job: a head that goes on for a lost one takes the replicas that it is told") {
  auto plan = job_of_two_replicas();
  plan.job.checkpoint.memory.every = 1;
  job_harness job(plan);
  job_memory memory;
  memory.lost = lost_head{"was killed", 4, 4, 0};
  memory.copies.epoch = 6;
  job.policy.remember(memory);
  job.policy.begin(0);
  job.hear(job.admitted(1));
  REQUIRE(job.find<todo::ask>());
  CHECK(job.find<todo::ask>()->phase == start_phase::open_folder);
  CHECK(job.policy.replicas() == 1);
}
