// The stage: what it makes of a pass, what it refuses, and what failures, deaths and silence do to
// it.
#include "actors/train/stage.hpp"

#include <doctest/doctest.h>

#include "messages/rejection.hpp"
#include "tests/actors/scripted_stage.hpp"

using namespace troupe;
using namespace troupe::train;
using namespace std::chrono_literals;
using troupe::train::test::scripted_stage;
using troupe::train::test::stage_epoch;
using troupe::train::test::stage_job;
using troupe::train::test::stage_op;
using troupe::train::test::stage_words;

namespace {

uint64_t unfitting() {
  return counts().of(reject::unexpected);
}

/// The worker's answer, refusal and silence to three questions of a kind reach who asked them.
template <class T, class R, class Ask>
void passes_on(scripted_stage& f, Ask ask) {
  const uint64_t ok = ask(), no = ask(), none = ask();
  const auto asked = f.worker.take_all<T>();
  REQUIRE(asked.size() == 3);
  asked[0].template answer<R>();
  f.answer<R>(ok);
  asked[1].refuse({errc::io, "lost"});
  CHECK(f.refusal<R>(no) == "io: lost");
  const std::chrono::milliseconds patience(find_call("Worker", message_traits<T>::id)->timeout_ms);
  f.pass(patience - 1ms);
  CHECK(f.waits<R>(none));
  f.pass(1ms);
  CHECK(f.run.answer_of<R>(none).error().code == errc::timeout);
  CHECK_FALSE(f.waits<R>(none));
}

const std::string stage_other_epoch = "version_mismatch: ";
const std::string stage_is_busy = "bug: the stage is busy with another pass";

}  // namespace

// -- the start ------------------------------------------------------------------------------------

TEST_CASE("stage: BuildStage goes on to its worker, whose answer is its own") {
  scripted_stage f;
  const auto number = f.order(f.description());
  CHECK(f.waits<fbs::StageReady>(number));
  const auto asked = f.worker.take<fbs::BuildStage>();
  CHECK(asked->rank() == f.rank);
  CHECK(asked->config_toml()->str() == stage_job(1, 3));
  asked.answer<fbs::StageReady>([](auto& r) { r.parameters = 77; });
  CHECK(f.answer<fbs::StageReady>(number).parameters == 77);
  const auto again = f.order(f.description());
  f.worker.take<fbs::BuildStage>().refuse({errc::no_memory, "9 GiB do not fit"});
  CHECK(f.refusal<fbs::StageReady>(again) == "no_memory: 9 GiB do not fit");
  CHECK(f.lives(f.target));
}

TEST_CASE("stage: a configuration that is none does not reach its worker") {
  scripted_stage f;
  auto b = f.description();
  b.config_toml = "[job\n";
  CHECK(
      f.refusal<fbs::StageReady>(f.order(b)).find("bad_config: the coordinator's configuration") ==
      0);
  CHECK(f.worker.idle());
}

TEST_CASE("stage: a place that its job does not have is refused before its worker hears of it") {
  scripted_stage f(1, 3);
  const auto refused = [&](auto change) {
    auto b = f.description();
    change(b);
    CHECK(f.refusal<fbs::StageReady>(f.order(b)).find(" has no place in a job of 1 x 3") !=
          std::string::npos);
  };
  refused([](auto& b) { b.data_ranks = 0; });
  refused([](auto& b) { b.pipeline_ranks = 0; });
  refused([](auto& b) { b.pipeline_rank = 2; });
  refused([](auto& b) { b.rank = UINT32_MAX; });
  CHECK(f.worker.idle());
}

TEST_CASE("stage: answers, refusals and silence of its worker are the run's") {
  scripted_stage f;
  passes_on<fbs::BuildStage, fbs::StageReady>(f, [&] { return f.order(f.description()); });
  passes_on<fbs::AttachLoader, fbs::Ack>(f, [&] { return f.attach(); });
  passes_on<fbs::OpenDataPlane, fbs::DataPlaneOffer>(f,
                                                     [&] { return f.ask<fbs::OpenDataPlane>(); });
  passes_on<fbs::DataPlaneTable, fbs::DataPlaneReady>(f,
                                                      [&] { return f.ask<fbs::DataPlaneTable>(); });
  passes_on<fbs::SaveCheckpoint, fbs::Saved>(f, [&] { return f.ask<fbs::SaveCheckpoint>(); });
  passes_on<fbs::LoadCheckpoint, fbs::Loaded>(f, [&] { return f.ask<fbs::LoadCheckpoint>(); });
  CHECK(f.lives(f.target));
}

TEST_CASE("stage: what is passed on is what was said, within its trace") {
  scripted_stage f;
  auto cause = f.context();
  cause.span = 41;
  cause.trace_low = 43;
  const auto number = f.run.ask(f.target, make_msg<fbs::SaveCheckpoint>(cause, [](auto& s) {
                                  s.step = 9;
                                  s.directory = "/partial";
                                }));
  const auto asked = f.worker.take<fbs::SaveCheckpoint>();
  CHECK(asked->step() == 9);
  CHECK(asked->directory()->str() == "/partial");
  CHECK(asked.m.header().span == 41);
  asked.answer<fbs::Saved>([](auto& s) { s.footer_crc32c = 17; });
  CHECK(f.answer<fbs::Saved>(number).footer_crc32c == 17);
}

TEST_CASE("stage: an earlier epoch's messages are refused and change nothing") {
  scripted_stage f(1, 3, 2);
  const auto old = stage_epoch - 1;
  CHECK(f.refusal<fbs::StageReady>(f.order(f.description(), old)).starts_with(stage_other_epoch));
  CHECK(f.refusal<fbs::Ack>(f.attach(old)).starts_with(stage_other_epoch));
  CHECK(f.refusal<fbs::Ack>(f.introduce(old)).starts_with(stage_other_epoch));
  CHECK(f.refusal<fbs::DataPlaneOffer>(f.ask<fbs::OpenDataPlane>(old))
            .starts_with(stage_other_epoch));
  CHECK(f.refusal<fbs::DataPlaneReady>(f.ask<fbs::DataPlaneTable>(old))
            .starts_with(stage_other_epoch));
  CHECK(f.refusal<fbs::StepDone>(f.ask<fbs::RunStep>(old)).starts_with(stage_other_epoch));
  CHECK(f.refusal<fbs::ValidationDone>(f.ask<fbs::Validate>(old)).starts_with(stage_other_epoch));
  CHECK(f.refusal<fbs::Saved>(f.ask<fbs::SaveCheckpoint>(old)).starts_with(stage_other_epoch));
  CHECK(f.refusal<fbs::Loaded>(f.ask<fbs::LoadCheckpoint>(old)).starts_with(stage_other_epoch));
  CHECK(f.worker.idle());
  CHECK(f.refusal<fbs::StepDone>(f.train(1)).find("bug: the stage has no loader yet") == 0);
  f.start();
  f.announce(f.previous, stage_op::forward, 4, 0, old);
  f.train(4);
  f.announce(f.previous, stage_op::forward, 4, 0, old);
  CHECK(f.given() == stage_words{"begin"});
}

TEST_CASE("stage: without a loader the first and the last run no pass, one between them does") {
  for (const uint32_t rank : {0u, 1u, 2u}) {
    scripted_stage f(rank, 3, 2);
    f.order(f.description());
    f.worker.take<fbs::BuildStage>().answer<fbs::StageReady>();
    const auto step = f.train(1);
    if (rank == 1) {
      CHECK(f.given() == stage_words{"begin"});
      continue;
    }
    CHECK(f.refusal<fbs::StepDone>(step) == "bug: the stage has no loader yet");
    CHECK(f.refusal<fbs::ValidationDone>(f.validate(1, 1)) == "bug: the stage has no loader yet");
    CHECK(f.worker.idle());
  }
}

// -- steps ----------------------------------------------------------------------------------------

TEST_CASE("stage: alone it takes its worker through all micro-batches of the loader's batch") {
  scripted_stage f;
  f.start();
  const auto number = f.train(4);
  CHECK(f.given() == stage_words{"begin"});
  const auto batch = f.loader.take<fbs::BatchRequest>();
  CHECK(batch->step() == 4);
  CHECK(batch->split() == fbs::Split::train);
  CHECK(batch->consumer() == f.rank);
  CHECK(f.status().state == "training");
  f.pass(60ms);
  f.diary.clear();
  batch.answer<fbs::BatchReady>([](auto& b) { b.slot = 2; });
  CHECK(f.diary.back() == "worker FinishStep");
  CHECK(f.given() == stage_words{"forward 0 in 0 of 2", "backward 0 in 0 of 2",
                                 "forward 1 in 0 of 2", "backward 1 in 0 of 2",
                                 "forward 2 in 0 of 2", "last backward 2 in 0 of 2"});
  for (const auto& op : f.under_way) CHECK(op->step() == 4);
  f.all_done();
  f.pass(40ms);
  CHECK(f.waits<fbs::StepDone>(number));
  f.finish();
  const auto done = f.answer<fbs::StepDone>(number);
  CHECK(done.step == 4);
  CHECK(done.rank == f.rank);
  CHECK(done.loss_sum == 12);
  CHECK(done.grad_norm == 0.5);
  REQUIRE(done.parts.size() == 1);
  CHECK(done.parts[0]->kind == "update");
  CHECK(done.parts[0]->busy_ms == 30);
  CHECK(f.status().state == "idle");
  const auto shown = std::move(f.status().values->stage);
  CHECK(shown->pipeline_rank == 0);
  CHECK(shown->data_rank == 0);
  CHECK(shown->steps_done == 1);
  CHECK(shown->step == 4);
  CHECK(f.awaited().empty());
}

TEST_CASE("stage: what its worker has to say to the person goes to the run whose pass it is") {
  scripted_stage f;
  f.start();
  const auto say = [&](const char* text) {
    f.worker.tell(f.target, make_msg<fbs::Notice>(f.context(), [&](auto& n) { n.text = text; }));
    f.settle();
  };
  say("nobody asks");
  CHECK(f.run.idle());
  f.train(4);
  say("the drive is full");
  CHECK(f.run.take<fbs::Notice>()->text()->str() == "the drive is full");
  f.give_tokens();
  f.all_done();
  f.finish();
  say("it is full again");  // between two passes, as in a save
  CHECK(f.run.take<fbs::Notice>()->text()->str() == "it is full again");
}

TEST_CASE("stage: the update is told step and rate") {
  scripted_stage f;
  f.start();
  f.train(4);
  f.give_tokens();
  f.all_done();
  const auto asked = f.finish();
  CHECK(asked.step == 4);
  CHECK(asked.lr == 0.25);
  CHECK_FALSE(asked.evaluation);
}

TEST_CASE("stage: a layer is computed to be compared before the step's first operation") {
  scripted_stage f;
  f.start();
  f.ask<fbs::RunStep>([](auto& s) {
    s.step = 7;
    s.recheck = true;
  });
  CHECK(f.given() == stage_words{"begin", "recheck 0 in 0 of -1"});
  CHECK(f.under_way.back()->step() == 7);
  f.give_tokens();  // which it does not wait for
  CHECK(f.given().front() == "forward 0 in 0 of 2");
}

TEST_CASE("stage: where weights are digested its last backward is told so, and its update") {
  scripted_stage f;
  f.start();
  f.ask<fbs::RunStep>([](auto& s) {
    s.step = 7;
    s.digest = true;
  });
  f.give_tokens();
  f.given();
  for (const auto& op : f.under_way) CHECK(op->digest() == op->last());
  f.all_done();
  CHECK(f.finish().digest);
}

TEST_CASE("stage: the first announces activations to the next, and takes what that announces") {
  scripted_stage f(0, 2);
  f.start();
  f.train(4);
  f.give_tokens();
  CHECK(f.given() == stage_words{"begin", "forward 0 in 0 of 2", "forward 1 in 1 of 2"});
  CHECK(f.next.idle());
  f.done("begin");
  f.done("forward 0 in 0 of 2");
  CHECK(f.announced(f.next) == stage_words{"forward 0 of step 4"});
  f.announce(f.next, stage_op::backward, 4, 0);
  CHECK(f.given() ==
        stage_words{"receive_gradient 0 in 0 of 2", "backward 0 in 0 of 2", "forward 2 in 0 of 2"});
  f.announce(f.next, stage_op::backward, 4, 1);
  CHECK(f.worker.take_all<fbs::FinishStep>().empty());
  f.announce(f.next, stage_op::backward, 4, 2);
  CHECK(f.given() == stage_words{"receive_gradient 1 in 1 of 2", "backward 1 in 1 of 2",
                                 "receive_gradient 2 in 0 of 2", "last backward 2 in 0 of 2"});
  f.all_done();
  CHECK(f.announced(f.next) == stage_words{"forward 1 of step 4", "forward 2 of step 4"});
  CHECK(f.previous.idle());
  CHECK(f.finish().step == 4);
}

TEST_CASE("stage: one between two needs no tokens, and announces each way what is done") {
  scripted_stage f(1, 3, 2);
  f.start();
  const auto number = f.train(4);
  CHECK(f.loader.idle());
  CHECK(f.given() == stage_words{"begin"});
  f.done("begin");
  CHECK(f.awaited() == stage_words{"stage/0: the activation of micro-batch 0"});
  f.announce(f.previous, stage_op::forward, 4, 0);
  CHECK(f.given() == stage_words{"receive_activation 0 in 0 of -1", "forward 0 in 0 of -1"});
  f.announce(f.previous, stage_op::forward, 4, 1);
  f.all_done();
  CHECK(f.announced(f.next) == stage_words{"forward 0 of step 4", "forward 1 of step 4"});
  CHECK(f.awaited() == stage_words{"stage/2: the gradient of micro-batch 0"});
  f.announce(f.next, stage_op::backward, 4, 0);
  f.announce(f.next, stage_op::backward, 4, 1);
  CHECK(f.previous.idle());
  f.done("backward 0 in 0 of -1");
  f.done("last backward 1 in 1 of -1");
  CHECK(f.announced(f.previous) == stage_words{"backward 0 of step 4", "backward 1 of step 4"});
  CHECK(f.next.idle());
  f.finish();
  CHECK(f.answer<fbs::StepDone>(number).step == 4);
}

TEST_CASE("stage: the last goes back as soon as it has gone forward, and announces gradients") {
  scripted_stage f(1, 2, 2);
  f.start();
  f.train(4);
  f.give_tokens();
  f.announce(f.previous, stage_op::forward, 4, 0);
  CHECK(f.given() == stage_words{"begin", "receive_activation 0 in 0 of 2", "forward 0 in 0 of 2",
                                 "backward 0 in 0 of 2"});
  f.all_done();
  CHECK(f.announced(f.previous) == stage_words{"backward 0 of step 4"});
  CHECK(f.next.idle());
}

TEST_CASE("stage: operations wait for the worker, and the stats say for which") {
  scripted_stage f;
  f.start();
  f.train(4);
  CHECK(f.awaited() == stage_words{"worker/0: begin of micro-batch 0", "loader/*: batch 4"});
  f.give_tokens();
  f.all_done();
  CHECK(f.awaited() == stage_words{"worker/0: the update of step 4"});
}

// -- one pass at a time (STG-1) -------------------------------------------------------------------

TEST_CASE("stage: a step or a validation beside a pass is refused and does not disturb it") {
  for (const bool train : {true, false}) {
    scripted_stage f;
    f.start();
    const auto number = train ? f.train(4) : f.validate(4, 1);
    CHECK(f.refusal<fbs::StepDone>(f.train(5)) == stage_is_busy);
    CHECK(f.refusal<fbs::ValidationDone>(f.validate(5, 1)) == stage_is_busy);
    CHECK(f.given() == stage_words{"begin"});
    f.give_tokens();
    f.all_done();
    CHECK(f.refusal<fbs::StepDone>(f.train(5)) == stage_is_busy);
    CHECK(f.finish().step == 4);
    if (train)
      CHECK(f.answer<fbs::StepDone>(number).step == 4);
    else
      CHECK(f.answer<fbs::ValidationDone>(number).step == 4);
    f.train(5);
    CHECK(f.given() == stage_words{"begin"});
  }
}

// -- announcements (STG-2) ------------------------------------------------------------------------

TEST_CASE("stage: an announcement that comes before its pass, or before its tokens, is kept") {
  scripted_stage f(1, 2, 2);
  f.start();
  f.announce(f.previous, stage_op::forward, 1, 0);
  f.train(1);
  f.announce(f.previous, stage_op::forward, 1, 1);
  f.announce(f.previous, stage_op::forward, 2, 0);   // of the next step
  f.announce(f.previous, stage_op::evaluate, 1, 0);  // of a validation
  CHECK(f.given() == stage_words{"begin"});
  const auto before = unfitting();
  f.give_tokens();
  CHECK(f.given().size() == 6);
  f.all_done();
  f.finish();
  f.validate(1, 1);
  f.give_tokens();
  CHECK(f.given() ==
        stage_words{"begin", "receive_activation 0 in 0 of 2", "evaluate 0 in 0 of 2"});
  f.announce(f.previous, stage_op::evaluate, 1, 1);
  f.all_done();
  f.finish();
  f.train(2);
  f.give_tokens();
  CHECK(f.given() == stage_words{"begin", "receive_activation 0 in 0 of 2", "forward 0 in 0 of 2",
                                 "backward 0 in 0 of 2"});
  CHECK(unfitting() == before);
}

TEST_CASE("stage: an announcement that does not fit the pass is counted and dropped") {
  scripted_stage f(1, 2, 2);
  f.start();
  f.train(4);
  f.give_tokens();
  f.given();
  const auto drops = [&](stage_op kind, uint64_t step, uint32_t micro_batch) {
    const auto before = unfitting();
    f.announce(f.previous, kind, step, micro_batch);
    return unfitting() == before + 1;
  };
  CHECK(drops(stage_op::forward, 3, 0));   // late
  CHECK(drops(stage_op::forward, 4, 2));   // no such micro-batch
  CHECK(drops(stage_op::backward, 4, 0));  // the last has no next
  CHECK(f.given().empty());
  CHECK_FALSE(drops(stage_op::forward, 4, 0));
  CHECK(f.given().size() == 3);
  CHECK(drops(stage_op::forward, 4, 0));  // again
  CHECK(f.given().empty());
}

TEST_CASE("stage: a gradient before its forward is counted and dropped") {
  scripted_stage f(1, 3, 2);
  f.start();
  f.train(4);
  const auto before = unfitting();
  f.announce(f.next, stage_op::backward, 4, 0);
  CHECK(unfitting() == before + 1);
  f.announce(f.previous, stage_op::forward, 4, 0);
  CHECK(f.given() ==
        stage_words{"begin", "receive_activation 0 in 0 of -1", "forward 0 in 0 of -1"});
}

TEST_CASE("stage: of early announcements so many are kept, and no more") {
  scripted_stage f(1, 2, 2);
  f.start();
  const auto before = unfitting();
  for (size_t i = 0; i < stage_state::early_limit; ++i)
    f.announce(f.previous, stage_op::forward, 4, 0);
  CHECK(unfitting() == before);
  f.announce(f.previous, stage_op::forward, 4, 1);
  CHECK(unfitting() == before + 1);
  f.train(4);
  f.give_tokens();  // one fits, the others are the same again
  CHECK(unfitting() == before + stage_state::early_limit);
  CHECK(f.given().size() == 4);
}

// -- validations (STG-3) --------------------------------------------------------------------------

TEST_CASE("stage: a validation goes through its batches, one when all of the last is done") {
  scripted_stage f(0, 2, 2);
  f.start();
  const auto number = f.validate(4, 2);
  CHECK(f.status().state == "validating");
  const auto first = f.loader.take<fbs::BatchRequest>();
  CHECK(first->step() == 1);
  CHECK(first->split() == fbs::Split::validation);
  first.answer<fbs::BatchReady>([](auto& b) { b.slot = 3; });
  CHECK(f.given() == stage_words{"begin", "evaluate 0 in 0 of 3", "evaluate 1 in 1 of 3"});
  f.done("evaluate 1 in 1 of 3");
  f.done("begin");
  CHECK(f.loader.idle());  // the slot is read
  f.done("evaluate 0 in 0 of 3");
  CHECK(f.announced(f.next) == stage_words{"evaluate 1 of step 1", "evaluate 0 of step 1"});
  const auto second = f.loader.take<fbs::BatchRequest>();
  CHECK(second->step() == 2);
  second.answer<fbs::BatchReady>([](auto& b) { b.slot = 1; });
  CHECK(f.given() == stage_words{"evaluate 0 in 0 of 1", "evaluate 1 in 1 of 1"});
  f.all_done();
  CHECK(f.announced(f.next) == stage_words{"evaluate 0 of step 2", "evaluate 1 of step 2"});
  const auto asked = f.finish();
  CHECK(asked.step == 4);
  CHECK(asked.evaluation);
  const auto done = f.answer<fbs::ValidationDone>(number);
  CHECK(done.step == 4);
  CHECK(done.rank == f.rank);
  CHECK(done.loss_sum == 12);
  CHECK(done.target_count == 16);  // of two batches
  CHECK(f.loader.idle());
  CHECK(f.status().state == "idle");
}

TEST_CASE("stage: a validation of no batches has one, and without tokens each follows the last") {
  scripted_stage f(1, 3, 1);
  f.start();
  const auto none = f.validate(4, 0);
  f.announce(f.previous, stage_op::evaluate, 1, 0);
  f.all_done();
  CHECK(f.finish().evaluation);
  CHECK(f.answer<fbs::ValidationDone>(none).target_count == 8);
  f.validate(4, 2);
  f.announce(f.previous, stage_op::evaluate, 1, 0);
  f.announce(f.previous, stage_op::evaluate, 2, 0);  // a batch ahead
  CHECK(f.given() ==
        stage_words{"begin", "receive_activation 0 in 0 of -1", "evaluate 0 in 0 of -1"});
  f.all_done();
  CHECK(f.announced(f.next).size() == 3);
  CHECK(f.finish().evaluation);
}

// -- failures (STG-4) -----------------------------------------------------------------------------

TEST_CASE("stage: the first operation that fails is the pass's answer") {
  for (const bool train : {true, false}) {
    scripted_stage f(0, 2);
    f.start();
    const auto number = train ? f.train(4) : f.validate(4, 1);
    f.give_tokens();
    const std::string op = train ? "forward" : "evaluate";
    f.find(op + " 1 in 1 of 2").refuse({errc::io, "lost", "look at the disk"});
    const std::string why = "io: stage 0 of replica 0: lost";
    CHECK((train ? f.refusal<fbs::StepDone>(number) : f.refusal<fbs::ValidationDone>(number)) ==
          why);
    CHECK(f.status().state == "failed");
    f.find(op + " 0 in 0 of 2").refuse({errc::bug, "another"});
    CHECK((train ? f.refusal<fbs::StepDone>(number) : f.refusal<fbs::ValidationDone>(number)) ==
          why);
    CHECK(f.lives(f.target));
  }
}

TEST_CASE("stage: an update, a batch or an answer that does not come ends the pass") {
  const auto words = [](scripted_stage& f, uint64_t number) {
    return f.refusal<fbs::StepDone>(number);
  };
  scripted_stage update;
  update.start();
  auto number = update.train(4);
  update.give_tokens();
  update.all_done();
  update.worker.take<fbs::FinishStep>().refuse({errc::training, "the norm is not finite"});
  CHECK(words(update, number) == "training: stage 0 of replica 0: the norm is not finite");
  scripted_stage batch;
  batch.start();
  number = batch.train(4);
  batch.loader.take<fbs::BatchRequest>().refuse({errc::io, "no such file"});
  CHECK(words(batch, number) == "io: stage 0 of replica 0: no such file");
  scripted_stage silent_loader;
  silent_loader.start();
  number = silent_loader.train(4);
  silent_loader.pass(2min - 1ms);
  CHECK(silent_loader.waits<fbs::StepDone>(number));
  silent_loader.pass(1ms);
  CHECK(words(silent_loader, number).find("timeout: stage 0 of replica 0: ") == 0);
  scripted_stage silent_worker;
  silent_worker.start();
  number = silent_worker.train(4);
  silent_worker.give_tokens();
  silent_worker.pass(10min - 1ms);
  CHECK(silent_worker.waits<fbs::StepDone>(number));
  silent_worker.pass(1ms);
  CHECK(words(silent_worker, number).find("timeout: stage 0 of replica 0: ") == 0);
}

TEST_CASE("stage: a pass that failed waits for nobody") {
  scripted_stage f(1, 3, 2);
  f.start();
  f.train(4);
  CHECK(f.awaited().size() == 2);
  f.find("begin").refuse({errc::io, "lost"});
  CHECK(f.awaited().empty());
}

TEST_CASE("stage: what was asked for a pass that failed does not touch the next") {
  scripted_stage f;
  f.start();
  f.train(4);
  const auto first_batch = f.loader.take<fbs::BatchRequest>();
  f.find("begin").refuse({errc::io, "lost"});
  const auto second = f.train(4);
  const auto second_batch = f.loader.take<fbs::BatchRequest>();
  first_batch.answer<fbs::BatchReady>([](auto& b) { b.slot = 1; });
  CHECK(f.given() == stage_words{"begin"});
  second_batch.answer<fbs::BatchReady>([](auto& b) { b.slot = 2; });
  CHECK(f.given().size() == 6);
  const auto finish = f.worker.take<fbs::FinishStep>();
  const auto late = f.find("backward 0 in 0 of 2");
  f.find("forward 0 in 0 of 2").refuse({errc::io, "lost"});
  CHECK(f.refusal<fbs::StepDone>(second) == "io: stage 0 of replica 0: lost");
  const auto third = f.train(4);
  late.refuse({errc::bug, "of a pass before"});
  finish.answer<fbs::StepDone>();
  CHECK(f.waits<fbs::StepDone>(third));
  f.under_way.clear();
  f.give_tokens(0);
  CHECK(f.given().size() == 7);
  f.finish();
  CHECK(f.answer<fbs::StepDone>(third).step == 4);
}

// -- deaths ---------------------------------------------------------------------------------------

TEST_CASE("stage: it dies with its worker, in a pass or not") {
  for (const bool training : {true, false}) {
    scripted_stage f;
    f.start();
    if (training) f.train(4);
    f.worker.die();
    CHECK_FALSE(f.lives(f.target));
  }
}

TEST_CASE("stage: its worker is told of its end") {
  scripted_stage f;
  caf::anon_send_exit(f.target, caf::exit_reason::kill);
  f.settle();
  CHECK(f.worker.was_told_to_exit());
}

TEST_CASE("stage: a loader that dies ends the pass that waits for it, and the next one's wish") {
  scripted_stage f;
  f.start();
  const auto number = f.train(4);
  f.loader.die();
  CHECK(f.refusal<fbs::StepDone>(number).find("unavailable: stage 0 of replica 0: ") == 0);
  const auto again = f.train(4);
  CHECK(f.refusal<fbs::StepDone>(again).find("unavailable: stage 0 of replica 0: ") == 0);
  CHECK(f.lives(f.target));
}

TEST_CASE("stage: a neighbour that dies is the run's to notice") {
  scripted_stage f(1, 3, 2);
  f.start();
  const auto number = f.train(4);
  f.announce(f.previous, stage_op::forward, 4, 0);
  f.previous.die();
  f.next.die();
  f.all_done();
  CHECK(f.lives(f.target));
  CHECK(f.waits<fbs::StepDone>(number));
  CHECK(f.awaited() == stage_words{"stage/0: the activation of micro-batch 1"});
}

TEST_CASE("stage: what it has no handler for is refused, and it goes on") {
  scripted_stage f;
  const auto number = f.ask<fbs::OpenFolder>();
  CHECK_FALSE(f.run.answer_of<fbs::CheckpointFolder>(number));
  CHECK(f.lives(f.target));
}

TEST_CASE("stage: the clocks of a step go to the worker as it begins, and to no other pass") {
  scripted_stage f;
  f.start();
  f.ask<fbs::RunStep>([](auto& r) {
    r.step = 4;
    r.clocks = std::make_unique<fbs::StageClocksT>();
    r.clocks->mhz = {1200, 1300};
    r.clocks->times = 1.5F;
  });
  f.give_tokens();
  const auto begin = f.find("begin");
  REQUIRE(begin->clocks() != nullptr);
  CHECK(begin->clocks()->mhz()->Get(1) == 1300);
  begin.answer<fbs::OpDone>([&](auto& d) { d.kind = begin->kind(); });
  CHECK(f.find("forward 0 in 0 of 2")->clocks() == nullptr);
  scripted_stage plain;
  plain.start();
  plain.train(4);
  CHECK(plain.find("begin")->clocks() == nullptr);
}
