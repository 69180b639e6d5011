// The run in steps, checkpoints and at the end: which messages it sends, with what in them, and
// what it makes of answers, refusals, deaths and silence. What a job does is job_policy_test.cpp's.
#include "actors/train/run.hpp"

#include <array>

#include <doctest/doctest.h>

#include "tests/actors/scripted_run.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::train;
using namespace std::chrono_literals;
using troupe::train::test::any_has;
using troupe::train::test::begun_before;
using troupe::train::test::folder_of;
using troupe::train::test::run_epoch;
using troupe::train::test::scripted_run;
using troupe::train::test::scripted_run_options;
using troupe::train::test::two_tiers;

// -- steps ----------------------------------------------------------------------------------------

TEST_CASE("run: a step's report sums what the ranks say, on the run's clock") {
  scripted_run f;
  f.start();
  f.pass(40ms);
  CHECK(f.status().values->run->loss == 0);
  f.step();
  const auto reports = f.reporter.take_all<fbs::StepReport>();
  REQUIRE(reports.size() == 1);
  const auto r = reports[0].m.unpack();
  CHECK(reports[0].m.epoch() == run_epoch);
  CHECK(r.step == 1);
  CHECK(r.steps == 4);
  CHECK(r.loss == 3);
  CHECK(r.grad_norm == 0.5);
  CHECK(r.step_ms == doctest::Approx(40));
  CHECK(r.tokens == 16);
  CHECK(r.tokens_per_s == doctest::Approx(400));
  CHECK(r.checkpoint_wait_ms == 3);  // of the rank that waited longest
  REQUIRE(r.parts.size() == 4);
  CHECK(r.parts[0]->kind == "forward");
  CHECK(r.parts[0]->busy_ms == 25);  // the mean of 20 and 30
  CHECK(r.parts[0]->work == 16);     // of both
  CHECK(r.parts[1]->kind == "receive_activation");
  CHECK(r.parts[1]->busy_ms == 4);  // as long as the other end needed
  CHECK(r.parts[1]->waited_ms == 5);
  CHECK(r.parts[2]->kind == "send_activation");
  CHECK(r.parts[2]->busy_ms == 4);
  CHECK(r.parts[3]->waited_ms == 2.5);
  CHECK(r.validation_loss == -1);
  CHECK(f.stages[0].take<fbs::RunStep>()->step() == 2);
  const auto shown = std::move(f.status().values->run);
  CHECK(shown->step == 1);
  CHECK(shown->steps == 4);
  CHECK(shown->loss == 3);
  REQUIRE(shown->parts.size() == 4);
  CHECK(shown->parts[0]->kind == "forward");
  CHECK(shown->parts[0]->busy_ms == 25);
  CHECK(shown->parts[0]->work == 16);
  CHECK(shown->parts[3]->waited_ms == 2.5);
}

TEST_CASE("run: the next step waits for every rank") {
  scripted_run f;
  f.start();
  f.end_step(f.stages[1].take<fbs::RunStep>(), 1);
  CHECK(f.stages[1].idle());
  f.end_step(f.stages[0].take<fbs::RunStep>(), 0);
  CHECK(f.stages[1].take<fbs::RunStep>()->step() == 2);
}

TEST_CASE("run: a stage that refuses, dies or is silent in a step ends the run") {
  scripted_run refused;
  refused.start();
  refused.end_step(refused.stages[0].take<fbs::RunStep>(), 0);
  refused.stages[1].take<fbs::RunStep>().refuse({errc::io, "it is ill", {}, "device_ill"});
  CHECK(is_error(error_of(refused.ended()), "device_ill", "step 1", "rank 1"));
  CHECK(refused.stages[0].idle());

  scripted_run silent;
  silent.start();
  silent.end_step(silent.stages[0].take<fbs::RunStep>(), 0);
  silent.pass(10min - 1ms);
  CHECK(silent.coordinator.idle());
  silent.pass(1ms);
  const auto end = silent.ended();
  CHECK(is_error(error_of(end), no_answer, "step 1", "rank 1"));
  silent.end_step(silent.stages[1].take<fbs::RunStep>(), 1);  // late
  CHECK(silent.stages[1].idle());

  // Both die, as neighbours of a dead node see it: one end, with the launcher's word.
  scripted_run dead;
  dead.start();
  for (const auto& stage : dead.stages) stage.die();
  CHECK(dead.coordinator.idle());
  dead.lose("a");
  CHECK(dead.ended().message == "node a is gone");

  scripted_run alone({"", "", config::launch_mode::external});
  alone.start();
  alone.stages[1].die();
  alone.pass(2s);
  const auto gone = alone.ended();
  CHECK(gone.code == static_cast<uint8_t>(errc::unavailable));
  CHECK(is_error(error_of(gone), "", "step 1", "rank 1"));
}

TEST_CASE("ASK-2: how long a run waits for a step is its job's to say") {
  scripted_run f({.step_s = 3});
  f.start();
  f.pass(3s - 1ms);
  CHECK(f.coordinator.idle());
  f.pass(1ms);
  CHECK(f.ended().code == static_cast<uint8_t>(errc::timeout));
}

TEST_CASE("run: validation is asked of every stage, its loss is over all targets") {
  scripted_run f({"", "validate_every = 2\nvalidate_batches = 5\n"});
  f.start();
  f.step();
  f.step();
  CHECK(f.reporter.take_all<fbs::StepReport>().size() == 1);
  CHECK(f.status().state == "validating");
  for (size_t i = 0; i < 2; ++i) {
    const auto v = f.stages[i].take<fbs::Validate>();
    CHECK(v->step() == 2);
    CHECK(v->batches() == 5);
    v.answer<fbs::ValidationDone>([&](auto& d) {
      d.loss_sum = 10 + static_cast<double>(i);
      d.target_count = 3 + i;
    });
  }
  const auto reports = f.reporter.take_all<fbs::StepReport>();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0]->validation_loss() == 3);
  f.vote();
  CHECK(f.committer.take<fbs::CommitCheckpoint>()->validation_loss() == 3);
}

TEST_CASE("run: a stage that refuses or is silent in a validation ends the run") {
  const scripted_run_options validates{"", "validate_every = 1\n"};
  scripted_run refused(validates);
  refused.start();
  refused.step();
  refused.stages[0].take<fbs::Validate>().refuse({errc::io, "it is ill", {}, "device_ill"});
  CHECK(is_error(error_of(refused.ended()), "device_ill", "validation"));
  scripted_run silent(validates);
  silent.start();
  silent.step();
  silent.stages[0].take<fbs::Validate>().answer<fbs::ValidationDone>();
  silent.pass(10min - 1ms);
  CHECK(silent.coordinator.idle());
  silent.pass(1ms);
  CHECK(silent.ended().code == static_cast<uint8_t>(errc::timeout));
}

// -- checkpoints ----------------------------------------------------------------------------------

TEST_CASE("RUN-1: SaveCheckpoint reaches every rank before the next RunStep reaches any") {
  scripted_run f;
  f.start();
  f.step();
  f.diary.clear();
  f.step();
  std::erase_if(f.diary, [](const auto& line) { return line.find("stage/") != 0; });
  CHECK(f.diary == std::vector<std::string>{"stage/0 SaveCheckpoint", "stage/1 SaveCheckpoint",
                                            "stage/0 RunStep", "stage/1 RunStep"});
  const auto save = f.stages[1].take<fbs::SaveCheckpoint>();
  CHECK(save->step() == 2);
  CHECK(save->directory()->str() == "/first/step-00000002.e7.partial");
  CHECK(f.stages[1].take<fbs::RunStep>()->step() == 3);
}

TEST_CASE("run: a commit holds the votes of all ranks, by rank, and what was so at its step") {
  scripted_run f;
  f.start();
  f.step();
  f.step();
  CHECK(f.status().values->run->saving == std::vector<uint64_t>{2});
  const std::array saves{f.stages[0].take<fbs::SaveCheckpoint>(),
                         f.stages[1].take<fbs::SaveCheckpoint>()};
  f.vote(saves[1], 1);
  f.step();  // steps go on beside it
  CHECK(f.committer.idle());
  f.vote(saves[0], 0);
  const auto order = f.committer.take<fbs::CommitCheckpoint>();
  const auto c = order.m.unpack();
  CHECK(order.m.epoch() == run_epoch);
  CHECK(c.step == 2);
  CHECK(c.directory == "/first/step-00000002.e7.partial");
  CHECK(c.tokens == 32);
  CHECK(c.loss == 3);
  CHECK(c.validation_loss == -1);
  const auto state = checkpoint::parse_state(c.state);
  REQUIRE(state);
  CHECK(state->step == 2);
  CHECK(state->tokens == 32);
  REQUIRE(c.shards.size() == 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(c.shards[rank]->rank == rank);
    CHECK(c.shards[rank]->step == 2);
    CHECK(c.shards[rank]->bytes == 100 + rank);
    CHECK(c.shards[rank]->stream_bytes == 50 + rank);
    CHECK(c.shards[rank]->footer_crc32c == 9 + rank);
    CHECK(c.shards[rank]->slot_digest == 90 + rank);
  }
  f.give_folder(order, folder_of(2));
  f.step();
  const auto shown = std::move(f.status().values->run);
  CHECK(shown->saved_step == 2);
  CHECK(shown->saving == std::vector<uint64_t>{4});
  CHECK(shown->checkpoints == 1);
}

TEST_CASE("run: a save that a rank refuses, or does not answer, is abandoned and told") {
  scripted_run f;
  f.start();
  f.step();
  f.step();
  f.stages[0].take<fbs::SaveCheckpoint>().refuse({errc::io, "no space left on device"});
  auto given_up = f.committer.take<fbs::AbandonCheckpoint>();
  CHECK_FALSE(given_up.is_request());
  CHECK(given_up->step() == 2);
  CHECK(given_up->directory()->str() == "/first/step-00000002.e7.partial");
  CHECK(any_has(f.warnings(), "checkpoint of step 2 failed: save: no space left"));
  f.vote(f.stages[1].take<fbs::SaveCheckpoint>(), 1);  // its vote is for nothing
  CHECK(f.committer.idle());
  CHECK(f.coordinator.idle());  // the run goes on
  f.pass(1min);
  f.step();
  f.pass(1min);
  f.step();
  CHECK(f.reporter.take_all<fbs::StepReport>().back()->saved_step() == 0);
  f.pass(10min - 1ms);
  CHECK(f.committer.idle());
  f.pass(1ms);  // the last save, of step 4, is silent
  CHECK(f.committer.take<fbs::AbandonCheckpoint>()->step() == 4);
  const auto end = f.ended();
  CHECK(end.code == static_cast<uint8_t>(errc::timeout));
  CHECK(end.checkpoint.empty());
}

TEST_CASE("run: a commit that the committer refuses, or does not answer, is abandoned and told") {
  scripted_run f;
  f.start();
  f.step();
  f.step();
  f.vote();
  f.committer.take<fbs::CommitCheckpoint>().refuse({errc::io, "no space left on device"});
  CHECK(f.committer.take<fbs::AbandonCheckpoint>()->step() == 2);
  CHECK(any_has(f.warnings(), "commit the checkpoint: no space left on device"));
  f.step();
  f.step();
  f.vote();
  const auto silent = f.committer.take<fbs::CommitCheckpoint>();
  CHECK(silent->step() == 4);
  f.pass(10min - 1ms);
  CHECK(f.committer.idle());
  f.pass(1ms);
  CHECK(f.committer.take<fbs::AbandonCheckpoint>()->step() == 4);
  CHECK(f.ended().code == static_cast<uint8_t>(errc::timeout));
}

TEST_CASE("run: what is under way at the end is abandoned, or was committed already") {
  scripted_run f;
  f.start();
  f.step();
  f.step();
  f.lose("b");
  f.ended();
  CHECK(f.committer.idle());  // ranks may still write
  f.vote();
  CHECK(f.committer.take<fbs::AbandonCheckpoint>()->directory()->str() ==
        "/first/step-00000002.e7.partial");
  CHECK(f.committer.idle());

  scripted_run failing;
  failing.start();
  failing.step();
  failing.step();
  failing.lose("b");
  failing.stages[1].die();
  CHECK(failing.committer.take<fbs::AbandonCheckpoint>()->step() == 2);

  scripted_run committing({two_tiers});
  committing.start();
  committing.step();
  committing.step();
  committing.vote();
  committing.lose("b");
  CHECK(committing.ended().checkpoint.empty());
  committing.give_folder(committing.committer.take<fbs::CommitCheckpoint>(), folder_of(2));
  CHECK(committing.committer.idle());
  CHECK(committing.replicator.take<fbs::CopyCheckpoint>()->directory()->str() == folder_of(2));
  CHECK(committing.coordinator.idle());
}

// -- the end --------------------------------------------------------------------------------------

TEST_CASE("RUN-3: the end is told once, with what came of the job, and nothing after it") {
  scripted_run f({std::string("export_model = true\n") + two_tiers});
  f.start();
  f.train(4);
  for (const uint64_t step : {2, 4}) {
    const auto copy = f.replicator.take<fbs::CopyCheckpoint>();
    CHECK(copy->step() == step);
    CHECK(copy->directory()->str() == folder_of(step));
  }
  const auto model = f.committer.take<fbs::ExportModel>();
  CHECK(model->checkpoint()->str() == folder_of(4));
  CHECK(model->directory()->str() == "out/model");
  f.give_folder(model, "out/model");
  const auto copies = f.replicator.take<fbs::FinishCopies>();
  CHECK(copies->step() == 4);
  CHECK(copies->directory()->str() == folder_of(4));
  CHECK(f.coordinator.idle());
  f.give_folder(copies, folder_of(4, "/second"));
  const auto end = f.ended();
  CHECK(end.code == 0);
  CHECK(end.step == 4);
  CHECK(end.checkpoint == folder_of(4));
  CHECK(end.model == "out/model");
  CHECK(end.checkpoints == 2);
  CHECK(end.checkpoint_bytes == 402);
  CHECK(end.skipped_checkpoints == 0);
  CHECK(end.checkpoint_wait_ms == 12);
  f.diary.clear();
  f.lose("b");
  f.stop(false);
  f.admit();
  f.replicator.tell(f.run, f.make<fbs::Notice>([](auto& n) { n.text = "late"; }));
  f.coordinator.tell(f.run, caf::tick_atom_v);
  f.pass(1h);
  CHECK(f.diary.empty());
}

TEST_CASE("run: a model that is not written and a copy that is late are warnings") {
  scripted_run f({std::string("export_model = true\n") + two_tiers});
  f.start();
  f.train(4);
  f.committer.take<fbs::ExportModel>().refuse({errc::io, "no space left on device"});
  CHECK(any_has(f.warnings(), "no space left on device"));
  f.pass(600s - 1ms);
  CHECK(f.coordinator.idle());
  f.pass(1ms);  // the replicator is silent
  const auto end = f.ended();
  CHECK(end.code == 0);
  CHECK(end.model.empty());
  CHECK(any_has(f.warnings(), "the last checkpoint, of step 4, is not in the second tier"));

  scripted_run dead({two_tiers});
  dead.start();
  dead.train(4);
  dead.replicator.die();
  CHECK(dead.ended().code == 0);
  CHECK(any_has(dead.warnings(), "is not in the second tier"));
}

TEST_CASE("run: an export that is not answered ends when its time is over") {
  scripted_run f({"export_model = true\n"});
  f.start();
  f.train(4);
  f.committer.take<fbs::ExportModel>();
  f.pass(10min - 1ms);
  CHECK(f.coordinator.idle());
  f.pass(1ms);
  CHECK(f.ended().code == 0);
}

TEST_CASE("run: the last save is tried in the second tier, whatever the committer says") {
  scripted_run f({two_tiers});
  f.start();
  f.train(3);
  f.step();
  f.stages[0].take<fbs::SaveCheckpoint>().refuse({errc::io, "no space left on device"});
  f.stages[1].take<fbs::SaveCheckpoint>();
  CHECK(f.committer.take<fbs::AbandonCheckpoint>()->step() == 4);
  f.committer.take<fbs::OpenFolder>().refuse({errc::io, "the folder is gone"});
  CHECK(f.stages[0].take<fbs::SaveCheckpoint>()->directory()->str() ==
        "/second/step-00000004.e7.partial");
}

TEST_CASE(
    "run: the last save waits for room by its clock, opens the checkpoint folder, and is tried "
    "again") {
  scripted_run f;
  f.start();
  f.train(3);
  f.step();
  f.stages[0].take<fbs::SaveCheckpoint>().refuse({errc::io, "no space left on device"});
  f.stages[1].take<fbs::SaveCheckpoint>();
  CHECK(f.committer.take<fbs::AbandonCheckpoint>()->step() == 4);
  CHECK(f.status().state == "waiting for room");
  const std::chrono::nanoseconds pause(train::last_save_policy::pause_ns);
  f.pass(pause - 1ms);
  CHECK(f.committer.idle());
  f.pass(1ms);
  f.committer.take<fbs::OpenFolder>().refuse({errc::io, "still gone"});
  CHECK(f.stages[0].idle());
  f.pass(pause);
  f.give_folder(f.committer.take<fbs::OpenFolder>(), "/first");
  f.commit(4);
  const auto end = f.ended();
  CHECK(end.code == 0);
  CHECK(end.checkpoint == folder_of(4));
}

TEST_CASE("run: a stop saves after the step, or does not") {
  scripted_run saves;
  saves.start();
  saves.stop(true);
  CHECK(saves.coordinator.idle());
  saves.step();
  saves.commit(1);
  const auto end = saves.ended();
  CHECK(end.code == static_cast<uint8_t>(errc::cancelled));
  CHECK(end.message == "enough");
  CHECK(end.step == 1);
  CHECK(end.checkpoint == folder_of(1));
  scripted_run leaves;
  leaves.start();
  leaves.stop(false);
  leaves.step();
  CHECK(leaves.ended().checkpoint.empty());
  CHECK(leaves.stages[0].idle());
  scripted_run late;
  late.start();
  late.stop(true, run_epoch - 1);
  late.step();
  CHECK(late.stages[0].take<fbs::RunStep>()->step() == 2);
}

// -- persons --------------------------------------------------------------------------------------

TEST_CASE("run: pause, set and resume take effect between steps, and each answer has its cause") {
  scripted_run f;
  f.start();
  message_context asking;
  asking.span = 77;
  asking.trace_low = 78;
  const auto pause =
      f.person.ask(f.run, make_msg<fbs::Pause>(asking, [](auto& p) { p.reason = "lunch"; }));
  CHECK(f.answer_of(pause) == "pauses after step 1");
  const auto answer = f.person.answer_of<fbs::Ack>(pause);
  CHECK(answer->header().parent == 77);
  CHECK(answer->header().trace_low == 78);
  f.step();
  CHECK(f.status().state == "paused");
  CHECK(f.stages[0].idle());
  CHECK(any_has(f.said(), "paused after step 1: lunch"));
  CHECK(f.answer_of(f.ask<fbs::Pause>()) == "refused: the run is paused already");
  const auto set = [&](const char* key, const char* value) {
    return f.ask<fbs::SetValue>([&](auto& s) {
      s.key = key;
      s.value = value;
    });
  };
  const auto steps = set("train.steps", "3");
  CHECK(f.answer_of(steps) == "train.steps = 3 from step 2 on");
  const auto taken = f.person.answer_of<fbs::Ack>(steps);
  REQUIRE(taken);
  CHECK((*taken)->first_step() == 2);
  CHECK((*answer)->first_step() == 0);
  CHECK(f.answer_of(set("train.batch", "1")) == "refused: train.batch cannot change during a run");
  CHECK(f.answer_of(f.ask<fbs::Resume>()) == "continues with step 2");
  CHECK(f.stages[0].take<fbs::RunStep>()->step() == 2);
  CHECK(f.status().values->run->steps == 3);
}

TEST_CASE("run: a checkpoint that a person asks for is answered with its step, or with its end") {
  scripted_run f;
  f.start();
  CHECK(f.answer_of(f.ask<fbs::CheckpointNow>()) == "saves after step 1");
  f.step();
  f.commit(1);
  f.ask<fbs::Pause>();
  f.step();
  f.commit(2);
  CHECK(f.answer_of(f.ask<fbs::CheckpointNow>()) == "saved already: " + folder_of(2));
  f.ask<fbs::Resume>();
  f.ask<fbs::Pause>();
  f.step();
  const auto now = f.ask<fbs::CheckpointNow>();
  CHECK(f.answer_of(now) == "refused: no answer");
  f.commit(3);
  CHECK(f.answer_of(now) == "saved " + folder_of(3));
}

TEST_CASE("run: whoever waits for a checkpoint is answered when it fails, or the run ends") {
  const auto waiting = [](scripted_run& f) {
    f.start();
    f.ask<fbs::Pause>();
    f.step();
    return f.ask<fbs::CheckpointNow>();
  };
  scripted_run failing;
  const auto asked = waiting(failing);
  failing.stages[0].take<fbs::SaveCheckpoint>().refuse({errc::io, "no space left on device"});
  CHECK(failing.answer_of(asked) == "refused: save: no space left on device");
  scripted_run ending;
  const auto waits = waiting(ending);
  ending.lose("b");
  CHECK(ending.answer_of(waits) == "refused: the run has ended");
}

TEST_CASE("run: a request after the end is refused") {
  scripted_run f;
  f.start();
  f.lose("b");
  f.ended();
  for (const auto number : {f.ask<fbs::Pause>(), f.ask<fbs::Resume>(), f.ask<fbs::CheckpointNow>(),
                            f.ask<fbs::SetValue>()}) {
    const auto answer = f.person.answer_of<fbs::Ack>(number);
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == errc::unavailable);
    CHECK(answer.error().message == "the run has ended");
  }
  CHECK(f.status().state == "ended");
}

TEST_CASE("run: what a part has to say goes to the person until the end") {
  scripted_run f;
  const auto speak = [&] {
    f.loaders[0].tell(f.run, f.make<fbs::Notice>([](auto& n) {
      n.level = fbs::NoticeLevel::warning;
      n.text = "tokenising";
    }));
  };
  speak();
  CHECK(f.warnings() == std::vector<std::string>{"tokenising"});
  f.stop(false);
  f.reporter.take_all<fbs::Notice>();
  speak();
  CHECK(f.reporter.idle());
}

TEST_CASE("run: a tick that nobody waits for is nothing") {
  scripted_run f;
  f.start();
  f.diary.clear();
  f.coordinator.tell(f.run, caf::tick_atom_v);
  CHECK(f.diary.empty());
  CHECK(f.status().state == "training");
}

TEST_CASE("run: a message that it has no handler for is answered with an error") {
  scripted_run f;
  const auto answer =
      f.person.answer_of<fbs::Ack>(f.person.ask(f.run, make_msg<fbs::KillActor>(f.context())));
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code != errc::timeout);
  CHECK(f.lives(f.run));
}

TEST_CASE("RUN-4: run: in a new epoch it trains with its new crew and hears nothing of the old") {
  scripted_run f({.recovers = true});
  f.start();
  const auto late = f.stages[0].take<fbs::RunStep>();
  f.stages[1].take<fbs::RunStep>();
  f.lose("b");
  const auto recover = f.coordinator.take<fbs::Recover>();
  CHECK(recover.m.epoch() == run_epoch + 1);
  CHECK(recover->reason()->str() == "node b is gone");
  f.end_step(late, 0);                  // ASK-4
  f.admit(f.crew(), f.crew_handles());  // of the epoch before
  CHECK(f.committer.idle());
  f.admit(f.crew(), f.crew_handles(), run_epoch + 1);
  for (int p = 0; p <= static_cast<int>(start_phase::connect_data_plane); ++p)
    f.pass_phase(static_cast<start_phase>(p));
  for (const auto& stage : f.stages) {
    const auto step = stage.take<fbs::RunStep>();
    CHECK(step->step() == 1);
    CHECK(step.m.epoch() == run_epoch + 1);
  }
  CHECK(f.coordinator.idle());
}

TEST_CASE("JOB-15: run: it asks the committer for an older checkpoint, and says what it left") {
  scripted_run f({.resume = begun_before(), .recovers = true});
  f.start();
  f.pass_phase(start_phase::load_weights);
  for (const auto& stage : f.stages) stage.take<fbs::RunStep>();
  CHECK(f.committer.take<fbs::HoldCheckpoint>()->step() == 2);  // JOB-20
  f.lose("b");
  f.coordinator.take<fbs::Recover>();
  f.admit(f.crew(), f.crew_handles(), run_epoch + 1);
  for (int p = 0; p <= static_cast<int>(start_phase::connect_data_plane); ++p)
    f.pass_phase(static_cast<start_phase>(p));
  f.stages[0].take<fbs::LoadCheckpoint>().answer<fbs::Loaded>();
  f.stages[1].take<fbs::LoadCheckpoint>().refuse({errc::bad_data, "slot 3 is damaged"});
  f.coordinator.take<fbs::Recover>();
  CHECK(f.committer.idle());
  f.admit(f.crew(), f.crew_handles(), run_epoch + 2);
  const auto choose = f.committer.take<fbs::ChooseCheckpoint>();
  REQUIRE(choose->unsound()->size() == 1);
  CHECK(text_of(choose->unsound()->Get(0)) == begun_before().path.string());
  CHECK(choose->at_most() == 2);
  f.reporter.take_all<fbs::Notice>();
  choose.answer<fbs::CheckpointChosen>([](auto& c) {
    c.directory = "/second/step-00000002";
    c.step = 2;
    c.state = checkpoint::format_state({2, 32, 1.5, ""});
    c.told = {"step-00000002 is set aside"};
  });
  const auto told = f.reporter.take_all<fbs::Notice>();
  CHECK(std::any_of(told.begin(), told.end(), [](const auto& n) {
    return text_of(n->text()) == "step-00000002 is set aside";
  }));
  for (int p = 0; p <= static_cast<int>(start_phase::connect_data_plane); ++p)
    f.pass_phase(static_cast<start_phase>(p));
  const auto load = f.stages[0].take<fbs::LoadCheckpoint>();
  CHECK(text_of(load->directory()) == "/second/step-00000002");
}

TEST_CASE("RUN-5: a person is answered once the journal has what was said") {
  scripted_run f({.journal = true});
  f.start();
  auto record = f.journal.take<fbs::JobMemory>();  // what a fault now would cost
  CHECK(record->epoch() == run_epoch);
  record.answer<fbs::Ack>([](auto&) {});
  const auto pause = f.ask<fbs::Pause>([](auto& p) { p.reason = "lunch"; });
  CHECK(f.answer_of(pause) == "refused: no answer");
  const auto again = f.ask<fbs::Pause>();  // it changes nothing, and waits its turn
  record = f.journal.take<fbs::JobMemory>();
  CHECK(f.journal.idle());
  CHECK(record->paused());
  CHECK(text_of(record->pause_reason()) == "lunch");
  record.answer<fbs::Ack>([](auto&) {});
  CHECK(f.answer_of(pause) == "pauses after step 1");
  CHECK(f.answer_of(again) == "refused: the run is paused already");
  f.step();
  CHECK(f.status().state == "paused");

  const auto set = f.ask<fbs::SetValue>([](auto& s) {
    s.key = "train.lr";
    s.value = "0.125";
  });
  record = f.journal.take<fbs::JobMemory>();
  const auto said = record.m.unpack();
  REQUIRE(said.settings.size() == 1);
  CHECK(said.settings[0]->key == "train.lr");
  CHECK(said.settings[0]->step == 2);
  record.refuse({errc::io, "no space left on device"});
  CHECK(f.answer_of(set) == "train.lr = 0.125 from step 2 on");
  const auto told = f.reporter.take_all<fbs::Notice>();
  CHECK(std::any_of(told.begin(), told.end(), [](const auto& n) {
    return n->level() == fbs::NoticeLevel::warning &&
           text_of(n->text()).find("no space left on device") != std::string::npos;
  }));
}

TEST_CASE("RUN-5: a run pauses before its first step where the one before it was paused") {
  scripted_run f({.memory = job_memory{true, "lunch", {}}});
  f.start();
  CHECK(f.status().state == "paused");
  CHECK(f.stages[0].idle());
  CHECK(f.answer_of(f.ask<fbs::Resume>()) == "continues with step 1");
  CHECK(f.stages[0].take<fbs::RunStep>()->step() == 1);
}
