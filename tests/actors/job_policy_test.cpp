// What the job does, logged_actor by logged_actor; job_walks_test.cpp tries every state with every
// event.
#include "actors/train/job_policy.hpp"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/train/last_save_policy.hpp"
#include "tests/actors/job_harness.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::folder_of;
using troupe::train::test::job_harness;
using troupe::train::test::mentions;
using troupe::train::test::planned_job;
using troupe::train::test::recovering_job;
using troupe::train::test::trained;
using enum troupe::train::job_state;

TEST_CASE("job: the start asks phase by phase, and a stop in it ends at once") {
  std::vector<start_phase> asked;
  job_harness job;
  job.hear(heard::admitted{});
  while (const auto* ask = job.find<todo::ask>()) {
    asked.push_back(ask->phase);
    job_harness stopped = job;
    stopped.hear(heard::stop{"enough", true});
    REQUIRE(stopped.end);
    CHECK(stopped.end->code == errc::cancelled);  // JOB-2
    CHECK(stopped.saving.empty());
    job.pass();
  }
  CHECK(asked == std::vector{start_phase::open_folder, start_phase::open_data,
                             start_phase::build_stages, start_phase::attach_loaders,
                             start_phase::introduce_stages, start_phase::open_data_plane,
                             start_phase::connect_data_plane});
  CHECK(job.policy.state() == stepping);
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 1);
}

TEST_CASE("job: ranks are told before they build whether weights follow") {
  const auto follow = [](job_harness job) {
    job.hear(heard::admitted{});
    while (job.find<todo::ask>()->phase != start_phase::build_stages) job.pass();
    return job.find<todo::ask>()->weights_follow;
  };
  CHECK_FALSE(follow(job_harness()));
  checkpoint::resume_point from;
  from.path = folder_of(2);
  from.step = 2;
  CHECK(follow(job_harness(planned_job(), from)));
}

TEST_CASE("job: a phase that fails ends it with what was asked") {
  job_harness job;
  job.hear(heard::admitted{});
  const error why(errc::io, "no such disk");
  job.hear(heard::ask_failed{why});
  REQUIRE(job.end);
  CHECK(*job.end == why);
}

TEST_CASE("job: steps, due checkpoints, the last one, the model, the end") {
  auto job = trained(4, "export_model = true\n");
  CHECK(job.policy.state() == settling);
  CHECK(job.saving.at(4) == "/first/step-00000004.e7.partial");
  REQUIRE(job.find<todo::save>());
  CHECK(job.find<todo::save>()->last);
  auto earlier = trained(1);
  earlier.step();
  REQUIRE(earlier.find<todo::save>());
  CHECK_FALSE(earlier.find<todo::save>()->last);
  CHECK_FALSE(job.find<todo::run_step>());
  job.commit(4);
  REQUIRE(job.find<todo::export_model>());
  CHECK(job.find<todo::export_model>()->checkpoint == folder_of(4));
  job.hear(heard::exported{"out/model", {}});
  REQUIRE(job.end);
  CHECK(job.end->code == errc::none);
  CHECK(job.policy.model() == "out/model");
  CHECK(job.policy.checkpoints() == 2);
  CHECK(job.policy.checkpoint_bytes() == 200);
  CHECK(job.warned.empty());
}

TEST_CASE("job: what is under way at the end is committed and copied, or nothing is left of it") {
  auto job = trained(1, "second.dir = \"/second\"\n", "/second");
  job.step();
  auto committing = job;
  committing.hear(heard::shards_saved{2, 100});
  for (auto* j : {&job, &committing}) {
    j->hear(heard::ask_failed{{errc::io, "a rank failed"}});
    REQUIRE(j->end);
  }
  auto failing = job;
  job.hear(heard::shards_saved{2, 100});
  CHECK_FALSE(job.find<todo::commit>());
  REQUIRE(job.find<todo::abandon>());
  CHECK(job.find<todo::abandon>()->folder == "/first/step-00000002.e7.partial");
  failing.hear(heard::save_failed{2, {errc::io, "no space left on device"}});
  CHECK(failing.find<todo::abandon>());
  committing.hear(heard::committed{2, folder_of(2)});
  REQUIRE(committing.find<todo::copy>());
  CHECK(committing.find<todo::copy>()->folder == folder_of(2));
}

TEST_CASE("job: an older checkpoint that ends late is not the newest") {
  job_harness job;
  job.start();
  for (int i = 0; i < 4; ++i) job.step();
  job.commit(4);
  CHECK(job.policy.state() == settling);
  job.commit(2);
  REQUIRE(job.end);
  CHECK(job.policy.checkpoint() == folder_of(4));
}

TEST_CASE("JOB-7: job: one checkpoint is committed at a time, the older of those that wait first") {
  job_harness job;
  job.start();
  for (int i = 0; i < 4; ++i) job.step();
  job.hear(heard::shards_saved{4, 100});
  REQUIRE(job.find<todo::commit>());
  job.hear(heard::shards_saved{2, 100});
  CHECK_FALSE(job.find<todo::commit>());
  auto failing = job, ending = job;
  job.hear(heard::committed{4, folder_of(4)});
  failing.hear(heard::save_failed{4, {errc::io, "no space"}});
  ending.hear(heard::node_lost{"n0", "is silent"});
  REQUIRE(ending.end);
  for (auto* j : {&job, &failing, &ending}) {
    REQUIRE(j->find<todo::commit>());
    CHECK(j->find<todo::commit>()->step == 2);
  }
  job.hear(heard::committed{2, folder_of(2)});
  CHECK(job.policy.checkpoints() == 2);
}

TEST_CASE("job: a loss or norm that is no number ends it, and nothing is saved of it") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& [event, says] :
       {std::pair{heard::step_done{nan, 2, 1, 40, 0}, "the loss of step 2 is not a number"},
        std::pair{heard::step_done{inf, 2, 1, 40, 0}, "the loss of step 2 is infinite"},
        std::pair{heard::step_done{10, 2, nan, 40, 0},
                  "the gradient norm of step 2 is not a number"}}) {
    auto job = trained(1);
    job.hear(event);
    REQUIRE(job.end);
    CHECK(job.end->code == errc::training);  // JOB-4
    CHECK(job.end->message == says);
    CHECK(job.saving.empty());
  }
}

TEST_CASE("job: a validation stands between its step and the report") {
  job_harness job(planned_job("", "validate_every = 2\nvalidate_batches = 5\n"));
  job.start();
  job.step();
  REQUIRE(job.find<todo::report>());
  CHECK(job.find<todo::report>()->step.validation_loss == -1);
  job.step();
  CHECK(job.policy.state() == validating);
  CHECK_FALSE(job.find<todo::report>());
  REQUIRE(job.find<todo::validate>());
  CHECK(job.find<todo::validate>()->batches == 5);
  job.hear(heard::validated{8, 2});
  REQUIRE(job.find<todo::report>());
  CHECK(job.find<todo::report>()->step.validation_loss == 4);
  job.hear(heard::shards_saved{2, 1});
  CHECK(job.find<todo::commit>()->validation_loss == 4);
}

TEST_CASE("JOB-21: job: the state that it ends with is validated, where it validates at all") {
  const auto validating_job = [](const std::string& every, uint64_t steps) {
    job_harness job(planned_job("", every));
    job.start();
    for (uint64_t step = 1; step <= steps; ++step) job.step();
    return job;
  };
  auto whole = validating_job("validate_every = 100\n", 4);
  REQUIRE(whole.find<todo::validate>());
  CHECK_FALSE(whole.find<todo::report>());  // it is the step's own
  whole.hear(heard::validated{8, 2});
  REQUIRE(whole.find<todo::report>());
  CHECK(whole.find<todo::report>()->step.validation_loss == 4);
  CHECK(whole.policy.state() == settling);
  CHECK(validating_job("validate_every = 0\n", 4).policy.state() == settling);

  auto stopped = validating_job("validate_every = 100\n", 2);
  stopped.commit(2);
  stopped.hear(heard::stop{"by a person", true});
  auto in_a_hurry = stopped;
  stopped.step();
  REQUIRE(stopped.find<todo::report>());
  CHECK(stopped.find<todo::report>()->step.validation_loss == -1);
  REQUIRE(stopped.find<todo::save>());  // first
  REQUIRE(stopped.find<todo::validate>());
  CHECK(stopped.find<todo::validate>()->step == 3);
  CHECK(stopped.person(heard::save_now{}).starts_with("refused: "));
  auto saved_first = stopped, failing = stopped, unsaved = stopped;
  stopped.hear(heard::validated{8, 2});
  REQUIRE(stopped.find<todo::report>());
  CHECK(stopped.find<todo::report>()->step.step == 3);
  CHECK(stopped.find<todo::report>()->step.validation_loss == 4);
  CHECK(stopped.policy.state() == settling);
  auto written = stopped;
  written.hear(heard::shards_saved{3, 1});
  REQUIRE(written.find<todo::commit>());
  CHECK(written.find<todo::commit>()->validation_loss == 4);
  stopped.commit(3);
  REQUIRE(stopped.end);
  CHECK(stopped.end->code == errc::cancelled);

  auto written_first = saved_first;  // whose commit does not wait
  written_first.hear(heard::shards_saved{3, 1});
  REQUIRE(written_first.find<todo::commit>());
  CHECK(written_first.find<todo::commit>()->validation_loss == -1);
  saved_first.commit(3);
  CHECK_FALSE(saved_first.end);
  saved_first.hear(heard::validated{8, 2});
  REQUIRE(saved_first.end);
  CHECK(saved_first.policy.saved_step() == 3);

  failing.hear(heard::ask_failed{{errc::io, "a kernel failed"}});
  CHECK_FALSE(failing.end);
  CHECK(mentions(failing.warned, "the state of step 3 is not validated: "));
  failing.commit(3);
  REQUIRE(failing.end);
  CHECK(failing.end->code == errc::cancelled);

  unsaved.lose_save(3);
  unsaved.hear(heard::validated{8, 2});
  REQUIRE(unsaved.find<todo::save>());  // it is tried once more
  unsaved.commit(3);
  REQUIRE(unsaved.end);
  CHECK(unsaved.policy.saved_step() == 3);

  in_a_hurry.hear(heard::stop{"at once", false});
  in_a_hurry.step();
  CHECK_FALSE(in_a_hurry.find<todo::validate>());
  REQUIRE(in_a_hurry.end);
}

TEST_CASE(
    "JOB-22: job: a checkpoint in whose files ranks are goes with the first step, and no other") {
  checkpoint::resume_point begun;
  begun.path = folder_of(2);
  begun.step = begun.state.step = 2;
  begun.state.tokens = 32;
  const auto loaded = [&](bool takes_files, bool is_paused, int steps) {
    auto plan = planned_job();
    plan.job.train.steps = steps;
    job_harness job(std::move(plan), begun);
    if (is_paused) job.person(heard::pause{});
    job.hear(job.admitted());
    while (job.find<todo::ask>()->phase != start_phase::load_weights) job.pass();
    heard::phase_done done{start_phase::load_weights};
    done.takes_files = takes_files;
    job.hear(done);
    return job;
  };
  const auto gives_up = [](const job_harness& job) {
    REQUIRE(job.find<todo::run_step>());
    return job.find<todo::run_step>()->give_up;
  };
  CHECK(gives_up(loaded(false, false, 4)) == "");
  auto job = loaded(true, false, 4);
  CHECK(gives_up(job) == folder_of(2));
  job.step();
  CHECK(gives_up(job) == "");
  auto held = loaded(true, true, 4);
  CHECK(held.policy.state() == paused);
  auto stopped = held;
  stopped.hear(heard::stop{"by a person", true});
  REQUIRE(stopped.end);  // and nothing is lost
  held.person(heard::resume{});
  CHECK(gives_up(held) == folder_of(2));
  CHECK(loaded(true, false, 2).end);
}

TEST_CASE("JOB-21: job: who stops without saving does not wait for the last validation") {
  job_harness hurried(planned_job("", "validate_every = 100\n"));
  hurried.start();
  for (uint64_t step = 1; step <= 2; ++step) hurried.step();
  hurried.commit(2);
  hurried.hear(heard::stop{"by a person", true});
  hurried.step();
  REQUIRE(hurried.policy.state() == validating);
  auto committed_first = hurried, lost_first = hurried;
  hurried.hear(heard::stop{"at once", false});  // the checkpoint is waited for, and that alone
  CHECK(hurried.policy.state() == settling);
  const auto refused = hurried.policy.refused();
  auto too_late = hurried;
  hurried.commit(3);
  REQUIRE(hurried.end);
  CHECK(hurried.end->code == errc::cancelled);
  CHECK(too_late.policy.may_validate());
  auto failing = too_late;
  too_late.hear(heard::validated{8, 2});
  CHECK_FALSE(too_late.find<todo::report>());
  CHECK(too_late.find<todo::show>());  // ranks are at nothing any more
  CHECK_FALSE(too_late.policy.may_validate());
  failing.hear(heard::ask_failed{{errc::io, "a kernel failed"}});
  CHECK(failing.policy.state() == settling);
  CHECK(failing.policy.may_validate());  // other ranks
  hurried.hear(heard::validated{8, 2});  // after the end
  for (const auto* passed : {&too_late, &failing, &hurried})
    CHECK(passed->policy.refused() == refused);
  for (auto* again : {&too_late, &failing, &hurried}) {  // nothing else was asked
    again->hear(heard::ask_failed{{errc::io, "a kernel failed"}});
    CHECK(again->policy.refused() == refused + 1);
  }
  committed_first.commit(3);
  committed_first.hear(heard::stop{"at once", false});
  REQUIRE(committed_first.end);
  CHECK(committed_first.end->code == errc::cancelled);
  lost_first.lose_save(3);
  lost_first.hear(heard::stop{"at once", false});
  CHECK_FALSE(lost_first.find<todo::save>());
  REQUIRE(lost_first.end);
  CHECK(lost_first.policy.saved_step() == 2);
}

TEST_CASE(
    "JOB-21: job: no later stop begins a save while ranks are at a validation that was left") {
  job_harness job(planned_job("room_wait_s = 60\n", "validate_every = 100\n"));
  job.start();
  job.hear(heard::stop{"by a person", true});
  job.step();
  REQUIRE(job.policy.state() == validating);
  job.hear(heard::stop{"at once", false});
  job.hear(heard::stop{"by a person", true});
  job.lose_save(1);
  CHECK_FALSE(job.find<todo::wait>());
  REQUIRE(job.end);
  CHECK(job.end->code == errc::io);
}

TEST_CASE("JOB-21: job: a run that is stopped in a pause validates the state it paused with") {
  job_harness job(planned_job("", "validate_every = 100\n"));
  job.start();
  job.person(heard::pause{});
  job.step();
  CHECK(job.policy.state() == paused);
  job.hear(heard::stop{"by a person", true});
  REQUIRE(job.find<todo::validate>());
  job.hear(heard::validated{8, 2});
  job.commit(1);
  REQUIRE(job.end);

  job_harness none(planned_job("", "validate_every = 100\n"));  // nothing is trained yet
  none.person(heard::pause{});
  none.start();
  none.hear(heard::stop{"by a person", true});
  CHECK_FALSE(none.find<todo::validate>());
  REQUIRE(none.end);
}

TEST_CASE("job: a stop while a step runs holds after it, and saves unless told not to") {
  auto saving = trained(1);
  const std::string reason = "by a person";
  saving.hear(heard::stop{reason, true});
  CHECK(saving.policy.state() == stepping);
  saving.step();
  CHECK(saving.policy.state() == settling);
  REQUIRE(saving.find<todo::save>());
  CHECK(saving.find<todo::save>()->last);
  saving.commit(2);
  REQUIRE(saving.end);
  CHECK(saving.end->code == errc::cancelled);
  CHECK(saving.end->message == reason);

  auto not_saving = trained(2);
  not_saving.hear(heard::stop{"at once", false});
  not_saving.step();
  REQUIRE(not_saving.end);
  CHECK(not_saving.policy.saved_step() == 2);
  CHECK(not_saving.saving.empty());
}

TEST_CASE("job: who stops without saving after the last step has come too late") {
  auto job = trained(3);
  job.hear(heard::stop{"late", false});
  job.step();
  CHECK(job.policy.state() == settling);
  job.commit(4);
  REQUIRE(job.end);
  CHECK(job.end->code == errc::none);
}

TEST_CASE("job: each pause is lifted by whoever made it") {
  auto job = trained(1);
  CHECK(job.person(heard::pause{0, pause_cause::person, "look"}) == "pauses after step 2");
  job.hear(heard::pause{0, pause_cause::power, "too hot"});
  job.step();
  CHECK(job.policy.state() == paused);
  CHECK(job.policy.pauses() == std::set{pause_cause::person, pause_cause::power});
  CHECK(job.person(heard::resume{}) == "continues with step 3");
  CHECK(job.policy.state() == paused);
  job.hear(heard::resume{0, pause_cause::nodes});
  CHECK(job.policy.state() == paused);
  job.hear(heard::resume{0, pause_cause::power});
  CHECK(job.policy.state() == stepping);
  REQUIRE(job.find<todo::run_step>());
  CHECK(job.find<todo::run_step>()->step == 3);
}

TEST_CASE("job: what is set holds from the step that the answer names") {
  auto job = trained(1);
  CHECK(job.person(heard::set_value{0, "train.lr", "0.5"}) == "train.lr = 0.5 from step 3 on");
  REQUIRE(job.find<todo::answer>()->said);
  CHECK(job.find<todo::answer>()->said->first_step == 3);
  CHECK(job.person(heard::set_value{0, "model.layers", "3"}).starts_with("refused: "));
  const auto before = job.policy.plan().job.train.lr;
  CHECK(before != 0.5);
  job.step();
  CHECK(job.policy.plan().job.train.lr == 0.5);
  CHECK(job.policy.config_toml().find("lr = 0.5") != std::string::npos);
}

TEST_CASE("job: a person's save is made after the step, or at once while paused") {
  auto job = trained(2);
  CHECK(job.person(heard::save_now{}) == "saves after step 3");
  job.step();
  CHECK(job.saving.contains(3));
  job.commit(3);

  auto paused_job = trained(2);
  CHECK(paused_job.person(heard::pause{0, pause_cause::person, ""}) == "pauses after step 3");
  paused_job.step();
  REQUIRE(paused_job.policy.state() == paused);
  CHECK(paused_job.person(heard::save_now{}) == "");
  CHECK(paused_job.person(heard::save_now{}) == "step 3 is being saved already");
  paused_job.commit(3);
  CHECK(paused_job.answers[2] == "saved " + folder_of(3));
  CHECK(paused_job.person(heard::save_now{}) == "saved already: " + folder_of(3));
}

TEST_CASE("job: a save while paused is never the last, since steps may still be added") {
  auto job = trained(2);
  job.person(heard::pause{0, pause_cause::person, ""});
  job.step();
  REQUIRE(job.policy.state() == paused);
  job.person(heard::set_value{0, "train.steps", "3"});
  job.person(heard::save_now{});
  REQUIRE(job.find<todo::save>());
  CHECK_FALSE(job.find<todo::save>()->last);
}

TEST_CASE("job: a person is told of a save that failed, and of an end that came first") {
  auto job = trained(2);
  job.person(heard::pause{0, pause_cause::person, ""});
  job.step();
  job.person(heard::save_now{});
  auto ending = job;
  job.lose_save(3);
  CHECK(job.answers[2] == "refused: no space left on device");
  REQUIRE(job.find<todo::abandon>());
  CHECK(job.find<todo::abandon>()->folder == "/first/step-00000003.e7.partial");
  ending.hear(heard::node_lost{"n1", "does not answer any more"});
  CHECK(ending.answers[2] == "refused: the run has ended");
}

TEST_CASE("job: where two checkpoints are under way the third waits, or is left out and counted") {
  job_harness job(planned_job("when_busy = \"block\"\n", "")),
      skipping(planned_job("when_busy = \"skip\"\n", ""));
  for (auto* j : {&job, &skipping}) {
    CHECK(j->person(heard::set_value{0, "checkpoint.every", "1"}) ==
          "checkpoint.every = 1 from step 1 on");
    j->start();
    for (int i = 0; i < 3; ++i) j->step();
  }
  CHECK(skipping.policy.state() == stepping);
  CHECK(skipping.policy.pace().skipped() == 1);
  CHECK(mentions(skipping.warned, "left out"));

  CHECK(job.policy.state() == paused);
  CHECK(job.policy.pauses() == std::set{pause_cause::room});
  CHECK(job.policy.phase() == "waiting for an older checkpoint");
  auto stopped = job;
  job.commit(1);
  CHECK(job.saving.contains(3));
  CHECK(job.policy.state() == stepping);
  CHECK(job.policy.checkpoint_wait_ms() > 0);

  stopped.hear(heard::stop{"enough", true});  // the one that is due begins first
  CHECK(stopped.policy.state() == paused);
  stopped.commit(1);
  CHECK(stopped.saving.contains(3));
  CHECK(stopped.policy.state() == settling);
}

TEST_CASE(
    "job: the last save tries the second tier, waits, says so once, and says when it is over") {
  auto job = trained(4, "room_wait_s = 60\nsecond.dir = \"/second\"\n", "/second");
  job.lose_save(4);
  REQUIRE(job.find<todo::reopen_folder>());
  job.hear(heard::folder_open{});
  CHECK(job.saving.at(4) == "/second/step-00000004.e7.partial");
  job.lose_save(4);
  CHECK(job.policy.state() == waiting);
  REQUIRE(job.find<todo::wait>());
  CHECK(job.find<todo::wait>()->ns == train::last_save_policy::pause_ns);
  CHECK(mentions(job.warned, "waits for room in /first"));
  const auto warned = job.warned.size();
  job.wait();
  job.hear(heard::folder_open{error{errc::io, "no space left on device"}});
  CHECK(job.policy.state() == reopening);  // the second tier's turn
  job.hear(heard::folder_open{error{errc::io, "no space left on device"}});
  CHECK(job.saving.at(4) == "/second/step-00000004.e7.partial");
  job.lose_save(4);
  CHECK(job.policy.state() == waiting);
  CHECK(job.warned.size() == warned);  // LST-3
  job.wait();
  job.hear(heard::folder_open{});
  job.commit(4);
  CHECK(mentions(job.said, "the last checkpoint, of step 4, is saved"));
  CHECK(job.policy.state() == copying);
  job.hear(heard::copied{});
  REQUIRE(job.end);
  CHECK(job.end->code == errc::none);
}

TEST_CASE("job: patience ends, and whoever stops without saving ends it sooner") {
  auto job = trained(4, "room_wait_s = 60\n");
  job.lose_save(4);
  REQUIRE(job.policy.state() == waiting);
  auto hurried = job;
  for (int i = 0; i < 60 && !job.end; ++i) {
    job.wait();
    job.hear(heard::folder_open{});
    job.lose_save(4);
  }
  REQUIRE(job.end);
  CHECK(job.end->message == "no space left on device");
  hurried.hear(heard::stop{"at once", false});
  CHECK(hurried.policy.state() == reopening);
  hurried.hear(heard::folder_open{});
  hurried.lose_save(4);
  REQUIRE(hurried.end);
  CHECK(hurried.end->code == errc::io);
}

TEST_CASE("job: what was saved in the second tier is not copied there") {
  auto job = trained(4, "room_wait_s = 60\nsecond.dir = \"/second\"\n", "/second");
  job.lose_save(4);
  job.hear(heard::folder_open{});
  job.hear(heard::shards_saved{4, 1});
  job.saving.clear();
  job.hear(heard::committed{4, folder_of(4, "/second")});
  CHECK_FALSE(job.find<todo::copy>());
  auto first = trained(1, "second.dir = \"/second\"\n", "/second");
  first.step();
  first.commit(2);
  REQUIRE(first.find<todo::copy>());
  CHECK(first.find<todo::copy>()->folder == folder_of(2));
}

TEST_CASE("job: the end does not wait for the copy longer than whoever stops it again") {
  auto job = trained(4, "second.dir = \"/second\"\nsecond.wait_s = 60\n", "/second");
  job.commit(4);
  REQUIRE(job.find<todo::finish_copies>());
  auto failing = job;
  job.hear(heard::stop{"again", true});
  CHECK(job.policy.state() == copying);
  job.hear(heard::stop{"at once", false});
  REQUIRE(job.end);
  CHECK(job.end->code == errc::none);
  failing.hear(heard::copied{error{errc::io, "the disk is gone"}});
  CHECK(mentions(failing.warned, "is not in the second tier: "));
  REQUIRE(failing.end);
  CHECK(failing.end->code == errc::none);
}

TEST_CASE("job: who stops without saving waits for no copy, whenever the commit or model comes") {
  const std::string second = "second.dir = \"/second\"\nsecond.wait_s = 60\n";
  auto committing = trained(4, second, "/second");
  committing.hear(heard::stop{"at once", false});
  CHECK_FALSE(committing.end);
  committing.commit(4);
  CHECK_FALSE(committing.find<todo::finish_copies>());
  CHECK(committing.end);
  auto exporting_one = trained(4, second + "export_model = true\n", "/second");
  exporting_one.commit(4);
  REQUIRE(exporting_one.policy.state() == exporting);
  exporting_one.hear(heard::stop{"at once", false});
  CHECK_FALSE(exporting_one.end);
  exporting_one.hear(heard::exported{"model", {}});
  CHECK_FALSE(exporting_one.find<todo::finish_copies>());
  CHECK(exporting_one.end);
}

TEST_CASE("job: who stops without saving a paused job that is saved waits for no copy") {
  auto job = trained(2, "second.dir = \"/second\"\nsecond.wait_s = 60\n", "/second");
  job.person(heard::pause{0, pause_cause::person, ""});
  job.person(heard::save_now{});
  job.step();
  job.commit(3);
  REQUIRE(job.policy.state() == paused);
  job.person(heard::set_value{0, "train.steps", "3"});
  auto saving = job;
  job.hear(heard::stop{"at once", false});
  CHECK(job.end);
  saving.hear(heard::stop{"enough", true});
  CHECK(saving.policy.state() == copying);
}

TEST_CASE("job: what it went on from is its own only where the next start finds it") {
  checkpoint::resume_point from;
  from.step = from.state.step = 4;
  from.state.loss = 2.5;
  from.path = folder_of(4);
  job_harness in_place(planned_job(), from);
  in_place.start();
  REQUIRE(in_place.end);  // all steps are made and saved
  CHECK(in_place.saving.empty());
  from.path = "/elsewhere/step-00000004";
  job_harness of_another(planned_job(), from);
  of_another.start();
  CHECK(of_another.saving.at(4) == "/first/step-00000004.e7.partial");  // JOB-9
  of_another.hear(heard::shards_saved{4, 1});
  CHECK(of_another.find<todo::commit>()->loss == 2.5);
}

TEST_CASE("job: a node that is lost ends it, by name") {
  auto job = trained(2);
  job.hear(heard::node_lost{"n1", "does not answer any more"});
  REQUIRE(job.end);
  CHECK(job.end->code == errc::unavailable);
  CHECK(job.end->message == "node n1 does not answer any more");
}

TEST_CASE("job: what fails as where a node has died waits for the word of its end") {
  const error broken{errc::unavailable, "stage/1 is gone"};
  auto job = trained(2);
  job.hear(heard::ask_failed{broken});
  CHECK(job.policy.state() == explaining);
  REQUIRE(job.find<todo::wait>());
  auto nobody = job;
  CHECK(job.person(heard::pause{0, pause_cause::person, "a look"}) == "refused: the run has ended");
  job.hear(heard::node_lost{"n1", "was killed by signal 9"});
  REQUIRE(job.end);
  CHECK(job.end->message == "node n1 was killed by signal 9");
  nobody.wait();
  REQUIRE(nobody.end);
  CHECK(*nobody.end == broken);

  auto plan = planned_job();
  plan.job.cluster.launch = config::launch_mode::external;  // a person's kill is told all the same
  job_harness without(plan);
  without.hear(heard::admitted{});
  without.hear(heard::ask_failed{broken});
  CHECK_FALSE(without.end);
  without.wait();
  CHECK(without.end == broken);
}

TEST_CASE("job: nobody is heard once it stops or has made its last step, and each is told why") {
  auto job = trained(1);
  job.hear(heard::stop{"enough", true});
  CHECK(job.person(heard::pause{}) == "refused: the run is stopping");
  CHECK(job.person(heard::set_value{0, "train.lr", "1"}) == "refused: the run is stopping");
  auto finished = trained(4);
  CHECK(finished.person(heard::save_now{}) ==
        "refused: the last step is made: the run saves and ends");
  CHECK(finished.person(heard::resume{}) ==
        "refused: the last step is made: the run saves and ends");
}

// -- recovery -------------------------------------------------------------------------------------
