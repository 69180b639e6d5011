// RUN-6: the run of a job with several heads commits a checkpoint only while its head acts.
#include <doctest/doctest.h>

#include "actors/heads/elector.hpp"
#include "tests/actors/scripted_run.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::test::partner;
using troupe::train::test::any_has;
using troupe::train::test::folder_of;
using troupe::train::test::run_epoch;
using troupe::train::test::scripted_run;
using troupe::train::test::scripted_run_options;

namespace {

struct run_of_heads : scripted_run {
  partner elector = make_partner("elector");

  explicit run_of_heads(const scripted_run_options& o = {}) : scripted_run(o) {
    // The run that is there knows no elector: one that does stands in its place.
    caf::anon_send_exit(run, caf::exit_reason::kill);
    settle();
    spawn_record record{run_epoch};
    record.plan = train::test::plan_of_two(o);
    record.committer = committer.as<committer_actor>();
    record.reporter = reporter.as<reporter_actor>();
    record.coordinator = coordinator.as<coordinator_actor>();
    record.elector = elector.as<elector_actor>();
    run = spawn(train::run, std::move(record));
  }
  /// Both ranks have written their shards of this step, the next that is due.
  troupe::test::told<fbs::Elect> save(uint64_t at) {
    save_step(at);
    return elector.take<fbs::Elect>();
  }
  static void say_yes(const troupe::test::told<fbs::Elect>& asked) {
    asked.answer<fbs::Elected>([](auto& e) { e.voters = 2; });
  }
};

}  // namespace

TEST_CASE("RUN-6: a checkpoint is committed once a majority of voters follows its head") {
  run_of_heads f;
  f.start();
  const auto asked = f.save(2);
  CHECK(asked.is_request());
  CHECK(asked->epoch() == 0);  // the one that this head acts in
  CHECK(f.committer.idle());
  f.step();  // steps go on beside it
  CHECK(f.committer.idle());
  f.say_yes(asked);
  const auto order = f.committer.take<fbs::CommitCheckpoint>();
  CHECK(order->step() == 2);
  CHECK(order->shards()->size() == 2);
  f.give_folder(order, folder_of(2));
  f.step();
  CHECK(f.status().values->run->saved_step == 2);
  CHECK(f.committer.idle());
  CHECK(f.elector.idle());
}

TEST_CASE("RUN-6: outvoted, the save fails and nothing is committed, the next is asked anew") {
  run_of_heads f;
  f.start();
  f.save(2).refuse(heads::outvoted(9, "two:4002"));
  CHECK(f.committer.take_all<fbs::CommitCheckpoint>().empty());
  CHECK(f.committer.take<fbs::AbandonCheckpoint>()->step() == 2);
  const auto warned = f.warnings();
  CHECK(any_has(warned, "step 2"));
  CHECK(any_has(warned, "two:4002"));
  CHECK(f.status().values->run->saved_step == 0);
  CHECK(f.coordinator.idle());  // whether the head ends is not the run's to say
  f.say_yes(f.save(4));
  const auto order = f.committer.take<fbs::CommitCheckpoint>();
  CHECK(order->step() == 4);
  CHECK(order->shards()->size() == 2);
}

TEST_CASE("RUN-6: an elector that is gone, or silent, commits nothing either") {
  for (const bool dies : {true, false}) {
    CAPTURE(dies);
    run_of_heads f;
    f.start();
    const auto asked = f.save(2);
    if (dies)
      asked.refuse({errc::unavailable, "the actor ended"});  // as CAF does
    else
      f.pass(std::chrono::seconds(11));
    CHECK(f.committer.take_all<fbs::CommitCheckpoint>().empty());
    CHECK(f.committer.take<fbs::AbandonCheckpoint>()->step() == 2);
  }
}

TEST_CASE(
    "run: what waits behind another commit is committed as it was written, after a loss, too") {
  scripted_run f({.recovers = true});
  f.start();
  f.save_step(2);
  const auto first = f.committer.take<fbs::CommitCheckpoint>();
  CHECK(first->step() == 2);
  f.save_step(4);
  CHECK(f.committer.take_all<fbs::CommitCheckpoint>().empty());
  f.lose("b");
  CHECK(f.coordinator.take_all<fbs::Recover>().size() == 1);
  f.give_folder(first, folder_of(2));
  const auto order = f.committer.take<fbs::CommitCheckpoint>();
  CHECK(order->step() == 4);
  CHECK(order->shards()->size() == 2);
  CHECK(order.m.epoch() == run_epoch);
}

TEST_CASE("RUN-6: what is saved is committed as it was written, whatever fails meanwhile") {
  run_of_heads f({.recovers = true});
  f.start();
  const auto asked = f.save(2);
  f.lose("b");
  CHECK(f.coordinator.take_all<fbs::Recover>().size() == 1);
  f.say_yes(asked);
  const auto order = f.committer.take<fbs::CommitCheckpoint>();
  CHECK(order->step() == 2);
  CHECK(order->shards()->size() == 2);
  CHECK(order.m.epoch() == run_epoch);  // in which it was written
}

TEST_CASE("RUN-6: the run ends behind its last checkpoint's loss, or says why there is none") {
  for (const bool acts : {true, false}) {
    CAPTURE(acts);
    run_of_heads f({.train = "validate_every = 100\n"});
    f.start();
    f.stop(true);
    f.step();
    f.vote();
    f.say_yes(f.elector.take<fbs::Elect>());
    f.give_folder(f.committer.take<fbs::CommitCheckpoint>(), folder_of(1));
    f.validate();
    const auto asked = f.elector.take<fbs::Elect>();
    CHECK(f.coordinator.idle());
    if (acts) {
      f.say_yes(asked);
      const auto amended = f.committer.take<fbs::AmendCheckpoint>();
      CHECK(amended->directory()->str() == folder_of(1));
      CHECK(amended->validation_loss() == 3);
      CHECK(f.coordinator.idle());
      amended.answer<fbs::Ack>();
    } else {
      asked.refuse(heads::outvoted(9, "two:4002"));
    }
    const auto warned = f.warnings();
    CHECK(any_has(warned, folder_of(1) + " stays without its validation loss") == !acts);
    CHECK(any_has(warned, "two:4002") == !acts);
    CHECK(f.committer.idle());
    CHECK(f.ended().code == static_cast<uint8_t>(errc::cancelled));
  }
}
