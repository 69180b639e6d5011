// The loss of the state that a job ends with: validated behind its last checkpoint, it goes into
// that one, before anybody copies it (JOB-21).
#include <algorithm>
#include <chrono>

#include <doctest/doctest.h>

#include "actors/base/defaults.hpp"
#include "actors/train/job_policy.hpp"
#include "tests/actors/job_harness.hpp"
#include "tests/actors/scripted_run.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::any_has;
using troupe::train::test::folder_of;
using troupe::train::test::job_harness;
using troupe::train::test::mentions;
using troupe::train::test::planned_job;
using troupe::train::test::recovering_job;
using troupe::train::test::run_epoch;
using troupe::train::test::scripted_run;
using troupe::train::test::two_tiers;
using enum troupe::train::job_state;

namespace {

constexpr const char* validates_last = "validate_every = 100\n";

/// Stopped in step 3, whose checkpoint is written while its state is validated.
job_harness stopped_in_3() {
  job_harness job(planned_job(two_tiers, validates_last), {}, "/second");
  job.start();
  for (int step = 1; step <= 2; ++step) job.step();
  job.commit(2);
  job.hear(heard::stop{"by a person", true});
  job.step();
  REQUIRE(job.policy.state() == validating);
  return job;
}

/// What is said of a checkpoint in the last answer, in that order: "amend", "copy".
std::vector<std::string> said_of_it(const job_harness& job) {
  std::vector<std::string> out;
  for (const auto& c : job.last) {
    if (const auto* a = std::get_if<todo::amend>(&c)) {
      CHECK(a->folder == folder_of(3));
      CHECK(a->validation_loss == 4);
      out.emplace_back("amend");
    }
    if (const auto* copied = std::get_if<todo::copy>(&c)) {
      CHECK(copied->step == 3);
      out.emplace_back("copy");
    }
  }
  return out;
}

using words = std::vector<std::string>;

}  // namespace

TEST_CASE("JOB-21: job: a loss that comes behind the last commit goes into that checkpoint") {
  auto committed_first = stopped_in_3();
  committed_first.commit(3);
  CHECK(said_of_it(committed_first) == words{});
  committed_first.hear(heard::validated{8, 2});
  CHECK(said_of_it(committed_first) == words{"amend", "copy"});

  auto while_it_commits = stopped_in_3();
  while_it_commits.hear(heard::shards_saved{3, 100});
  REQUIRE(while_it_commits.find<todo::commit>());
  CHECK(while_it_commits.find<todo::commit>()->validation_loss == -1);
  while_it_commits.hear(heard::validated{8, 2});
  CHECK(said_of_it(while_it_commits) == words{});
  while_it_commits.hear(heard::committed{3, folder_of(3)});
  CHECK(said_of_it(while_it_commits) == words{"amend", "copy"});

  auto known_before = stopped_in_3();
  known_before.hear(heard::validated{8, 2});
  known_before.hear(heard::shards_saved{3, 100});
  REQUIRE(known_before.find<todo::commit>());
  CHECK(known_before.find<todo::commit>()->validation_loss == 4);
  known_before.hear(heard::committed{3, folder_of(3)});
  CHECK(said_of_it(known_before) == words{"copy"});
}

TEST_CASE(
    "JOB-21: job: a checkpoint whose state is not validated after all is copied all the same") {
  const std::vector<job_event> ends{heard::ask_failed{{errc::io, "a kernel failed"}},
                                    heard::stop{"at once", false},
                                    heard::node_lost{"n0", "is gone"}};
  for (const auto& event : ends) {
    auto job = stopped_in_3();
    job.commit(3);
    job.hear(event);
    CHECK(said_of_it(job) == words{"copy"});
  }
}

TEST_CASE("JOB-21: job: a last validation that a recovery cuts off is made once more") {
  auto plan = recovering_job();
  plan.job.train.validate_every = 100;
  job_harness job(std::move(plan));
  job.start();
  job.step();
  job.person(heard::pause{});
  job.step();
  job.commit(2);
  job.person(heard::set_value{0, "train.steps", "2"});
  job.person(heard::resume{});
  REQUIRE(job.policy.state() == validating);
  job.hear(heard::node_lost{"n0", "is gone"});
  REQUIRE(job.policy.state() == recovering);
  job.hear(job.admitted());
  while (job.find<todo::ask>()) job.pass();
  CHECK_FALSE(job.find<todo::run_step>());
  REQUIRE(job.find<todo::validate>());
  CHECK(job.find<todo::validate>()->step == 2);
  job.hear(heard::validated{8, 2});
  REQUIRE(job.find<todo::report>());
  CHECK(job.find<todo::report>()->step.step == 2);
  CHECK(job.find<todo::report>()->step.loss == 5);
  CHECK(job.find<todo::report>()->step.validation_loss == 4);
  REQUIRE(job.find<todo::amend>());
  CHECK(job.find<todo::amend>()->folder == folder_of(2));
  REQUIRE(job.end);
  CHECK(job.end->code == errc::none);
}

TEST_CASE("JOB-21: job: a start with no step left validates what its checkpoint has no loss of") {
  checkpoint::resume_point from{folder_of(4), 4, {}, {4, 64, 2.5, ""}};
  job_harness job(planned_job("", validates_last), from);
  job.start();
  REQUIRE(job.find<todo::validate>());
  CHECK(job.find<todo::validate>()->step == 4);
  job.hear(heard::validated{8, 2});
  CHECK_FALSE(job.find<todo::report>());  // nobody knows the numbers of that step any more
  CHECK(mentions(job.said, "the state of step 4 is validated: its loss is 4.0000"));
  REQUIRE(job.find<todo::amend>());
  CHECK(job.find<todo::amend>()->folder == folder_of(4));
  CHECK(job.find<todo::amend>()->validation_loss == 4);
  REQUIRE(job.end);

  from.state.validation_loss = 4;
  job_harness known(planned_job("", validates_last), from);
  known.start();
  CHECK_FALSE(known.find<todo::validate>());
  REQUIRE(known.end);
}

TEST_CASE("JOB-21: run: nobody copies the last checkpoint before its loss is in it") {
  for (const bool works : {true, false}) {
    scripted_run f({two_tiers, validates_last});
    f.start();
    f.stop(true);
    f.step();
    f.vote();
    const auto order = f.committer.take<fbs::CommitCheckpoint>();
    CHECK(order->validation_loss() == -1);
    f.give_folder(order, folder_of(1));
    CHECK(f.replicator.idle());
    f.validate();
    const auto asked = f.committer.take<fbs::AmendCheckpoint>();
    CHECK(asked->directory()->str() == folder_of(1));
    CHECK(asked->validation_loss() == 3);
    CHECK(f.replicator.idle());
    if (works)
      asked.answer<fbs::Ack>();
    else
      asked.refuse({errc::io, "no such disk"});
    CHECK(any_has(f.warnings(), "without its validation loss: no such disk") == !works);
    CHECK(f.replicator.take<fbs::CopyCheckpoint>()->step() == 1);
    const auto last = f.replicator.take<fbs::FinishCopies>();
    CHECK(last->step() == 1);
    CHECK(f.coordinator.idle());
    f.give_folder(last, folder_of(1, "/second"));
    CHECK(f.ended().code == static_cast<uint8_t>(errc::cancelled));
  }
}

TEST_CASE("JOB-21: run: a disk that takes no loss holds up neither copies nor the end for long") {
  scripted_run f({two_tiers, validates_last});
  f.start();
  f.stop(true);
  f.step();
  f.vote();
  f.give_folder(f.committer.take<fbs::CommitCheckpoint>(), folder_of(1));
  f.validate();
  f.committer.take<fbs::AmendCheckpoint>();
  CHECK(f.replicator.idle());
  f.pass(defaults::amend_patience + std::chrono::seconds(1));
  CHECK(any_has(f.warnings(), "it is not known whether " + folder_of(1) + " has its validation"));
  CHECK(f.replicator.take<fbs::CopyCheckpoint>()->step() == 1);
  f.give_folder(f.replicator.take<fbs::FinishCopies>(), folder_of(1, "/second"));
  CHECK(f.ended().code == static_cast<uint8_t>(errc::cancelled));
}

TEST_CASE("JOB-21: run: where two losses are on their way, nobody copies before both are there") {
  scripted_run f({.checkpoint = two_tiers, .train = validates_last, .recovers = true});
  const auto set_steps = [&](const char* value) {
    f.ask<fbs::SetValue>([&](auto& v) {
      v.key = "train.steps";
      v.value = value;
    });
  };
  // Paused behind this step, which a person makes the last: its loss comes behind its commit.
  const auto end_with = [&](uint64_t last) {
    f.ask<fbs::Pause>();
    f.step();
    set_steps(std::to_string(last).c_str());
    f.ask<fbs::Resume>();
    f.vote();
    f.give_folder(f.committer.take<fbs::CommitCheckpoint>(), folder_of(last));
    f.validate();
    auto amended = f.committer.take<fbs::AmendCheckpoint>();
    CHECK(amended->directory()->str() == folder_of(last));
    return amended;
  };
  f.start();
  set_steps("6");
  for (int step = 1; step <= 2; ++step) f.step();
  for (const auto& stage : f.stages)  // nobody writes it: the job is not over with the last one
    CHECK(stage.take<fbs::SaveCheckpoint>()->step() == 2);
  f.step();
  const auto first = end_with(4);
  CHECK(f.replicator.idle());
  CHECK(f.coordinator.idle());
  f.lose("b");
  f.coordinator.take<fbs::Recover>();
  set_steps("6");
  f.admit(f.crew(), f.crew_handles(), run_epoch + 1);
  CHECK(f.committer.take<fbs::AbandonCheckpoint>()->step() == 2);
  for (int p = 0; p <= static_cast<int>(start_phase::connect_data_plane); ++p)
    f.pass_phase(static_cast<start_phase>(p));
  f.pass_phase(start_phase::load_weights);
  const auto second = end_with(5);
  CHECK(f.replicator.idle());
  first.answer<fbs::Ack>();
  CHECK(f.replicator.idle());
  second.answer<fbs::Ack>();
  for (const uint64_t step : {4, 5})
    CHECK(f.replicator.take<fbs::CopyCheckpoint>()->step() == step);
  CHECK(f.replicator.take<fbs::FinishCopies>()->step() == 5);
}
