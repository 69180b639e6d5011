// CRD-18: the coordinator of a job with several heads, between scripted nodes, a scripted run and a
// scripted elector.
#include <doctest/doctest.h>

#include "actors/heads/elector.hpp"
#include "messages/errors.hpp"
#include "tests/actors/scripted_cluster.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::test;
using namespace std::chrono_literals;
using troupe::test::told;

namespace {

constexpr uint32_t epoch_after = cluster_epoch + 1;

/// Its job's recovery.head_takeover_s is 10.
struct cluster_of_heads : scripted_cluster {
  partner elector = make_partner("elector");

  explicit cluster_of_heads(const std::optional<train::job_memory>& memory = {})
      : scripted_cluster({.launcher = true, .recovers = true}) {
    // The coordinator that is there knows no elector: one that does stands in its place.
    caf::anon_send_exit(target, caf::exit_reason::kill);
    settle();
    train::spawn_record record{cluster_epoch};
    record.plan = plan_of_cluster({.launcher = true, .recovers = true});
    REQUIRE(record.plan.job.recovery.head_takeover_s == 10);
    record.reporter = reporter.as<reporter_actor>();
    record.observer = observer.as<observer_actor>();
    record.launcher = launcher.as<launcher_actor>();
    record.committer = committer.as<committer_actor>();
    record.run = run.as<run_actor>();
    record.elector = elector.as<elector_actor>();
    record.memory = memory;
    target = spawn(coordinator, std::move(record), &io::local_storage());
  }

  /// The only question since the last look.
  told<fbs::Elect> question() {
    auto all = elector.take_all<fbs::Elect>();
    REQUIRE(all.size() == 1);
    return all[0];
  }
  static void say_yes(const told<fbs::Elect>& asked) {
    asked.answer<fbs::Elected>([](auto& e) { e.voters = 2; });
  }
  static void say_nobody(const told<fbs::Elect>& asked) {
    asked.refuse(heads::no_majority(1, 3, 2));
  }
  void ask_and_say_yes() {
    pass(500ms);
    say_yes(question());
  }
  /// It was elected just now, and its run has its crew.
  void begin_elected() {
    join_all();
    ask_and_say_yes();
    for (const size_t node : {1, 0}) take_ranks(node);
    REQUIRE(run.take_all<fbs::ClusterReady>().size() == 1);
    launcher.take_all<fbs::Launch>();
  }
  void lose_b_and_recover() {
    leave("b", "was killed");
    nodes[1].die();
    REQUIRE(lost().node == "b");
    run.tell(target, make_msg<fbs::Recover>(context_of(epoch_after)));
  }
  /// Time in which a and b beat and every Elect is answered with "nobody".
  void pass_without_majority(std::chrono::seconds time) {
    for (; time > 0s; time -= 1s) {
      for (const size_t node : {0, 1}) REQUIRE(beat(node));
      for (int half = 0; half < 2; ++half) {
        pass(500ms);
        for (const auto& asked : elector.take_all<fbs::Elect>()) say_nobody(asked);
      }
    }
  }
  /// But for connections that other tests of this process had turned away.
  size_t warnings() const {
    const auto all = reporter.take_all<fbs::Notice>();
    return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](const auto& n) {
      return n->level() == fbs::NoticeLevel::warning &&
             !n->text()->str().starts_with("turned away a connection");
    }));
  }
  size_t assignments() const {
    return nodes[0].take_all<fbs::Assign>().size() + nodes[1].take_all<fbs::Assign>().size();
  }
  void leaves_its_nodes_alone() const {
    for (const size_t node : {0, 1}) {
      CHECK(nodes[node].take_all<fbs::Shutdown>().empty());
      CHECK(nodes[node].take_all<fbs::Suspend>().empty());
      CHECK_FALSE(nodes[node].was_told_to_exit());
    }
    CHECK(elector.take_all<fbs::HeadEnds>().empty());  // the job goes on
    CHECK(run.was_told_to_exit());
    CHECK(committer.was_told_to_exit());
    CHECK_FALSE(lives(target));
  }
};

}  // namespace

TEST_CASE("CRD-18: no rank is given out before a majority has promised the epoch") {
  cluster_of_heads f;
  f.join_all();
  f.pass(500ms);
  const auto asked = f.question();
  CHECK(asked.is_request());
  CHECK(asked->epoch() == cluster_epoch);
  f.pass(1s);
  CHECK(f.elector.idle());  // one question at a time
  CHECK(f.assignments() == 0);
  f.say_yes(asked);
  CHECK(f.assignments() == 2);
}

TEST_CASE("CRD-18: a majority that is there first waits for the nodes") {
  cluster_of_heads f;
  f.ask_and_say_yes();
  CHECK(f.assignments() == 0);
  f.join_all();
  CHECK(f.assignments() == 2);
}

TEST_CASE("CRD-18: in a recovery no node is suspended before the new epoch is promised") {
  cluster_of_heads f;
  f.begin_elected();
  f.lose_b_and_recover();
  const auto asked = f.question();  // at once
  CHECK(asked->epoch() == epoch_after);
  REQUIRE(f.beat(0, epoch_after));
  f.pass(1s);
  CHECK(f.nodes[0].take_all<fbs::Suspend>().empty());
  f.say_yes(asked);
  const auto suspend = f.nodes[0].take<fbs::Suspend>();
  CHECK(suspend.m.epoch() == epoch_after);
  f.nodes[1] = f.make_partner("b again");
  f.instances[1] = "i1 again";
  REQUIRE(f.join(1));
  suspend.answer<fbs::Suspended>();
  f.pass(0ns);
  CHECK(f.assignments() == 2);
  CHECK(f.nodes[0].take_all<fbs::Suspend>().empty());  // once
}

TEST_CASE("CRD-18: what was promised of the epoch before says nothing of the next") {
  cluster_of_heads f;
  f.begin_elected();
  f.pass_with(4s, {0, 1});
  const auto old = f.question();
  CHECK(old->epoch() == cluster_epoch);
  f.lose_b_and_recover();
  CHECK(f.elector.take_all<fbs::Elect>().empty());
  f.say_yes(old);
  CHECK(f.nodes[0].take_all<fbs::Suspend>().empty());
  const auto next = f.question();
  CHECK(next->epoch() == epoch_after);
  f.say_yes(next);
  CHECK(f.nodes[0].take_all<fbs::Suspend>().size() == 1);
}

TEST_CASE("CRD-18: it has the epoch promised again, three times within recovery.head_takeover_s") {
  cluster_of_heads f;
  f.begin_elected();
  for (int i = 0; i < 3; ++i) {
    f.pass_with(3s, {0, 1});
    CHECK(f.elector.idle());
    f.pass_with(1s, {0, 1});
    const auto asked = f.question();
    CHECK(asked->epoch() == cluster_epoch);
    f.say_yes(asked);
  }
  CHECK(f.warnings() == 0);
  CHECK(f.assignments() == 0);  // the run goes on
}

TEST_CASE("CRD-18: outvoted, it ends and leaves the nodes to the head that acts") {
  for (const bool was_elected : {true, false}) {
    CAPTURE(was_elected);
    cluster_of_heads f;
    if (was_elected) {
      f.begin_elected();
      f.pass_with(4s, {0, 1});
    } else {
      f.join_all();
      f.pass(500ms);
    }
    f.question().refuse(heads::outvoted(9, "two:4002"));
    CHECK(error_of(f.told_end()) == heads::outvoted(9, "two:4002"));
    f.pass(1s);
    CHECK(f.assignments() == 0);
    f.leaves_its_nodes_alone();
  }
}

TEST_CASE("CRD-18: without a majority it warns once, and ends after recovery.head_takeover_s") {
  cluster_of_heads f;
  f.begin_elected();
  f.pass_without_majority(9s);
  CHECK(f.warnings() == 1);
  CHECK(f.reporter.take_all<fbs::RunEnded>().empty());
  f.pass_without_majority(1s);
  f.pass(1s);
  for (const auto& asked : f.elector.take_all<fbs::Elect>()) f.say_nobody(asked);
  CHECK(error_of(f.told_end()) == heads::no_majority(1, 3, 2));
  f.leaves_its_nodes_alone();
}

TEST_CASE("CRD-18: a majority that comes back in time is as if it had never been away") {
  cluster_of_heads f;
  f.begin_elected();
  for (int i = 0; i < 3; ++i) {
    f.pass_without_majority(9s);
    CHECK(f.warnings() == 1);  // each time anew
    f.ask_and_say_yes();
  }
  CHECK(f.reporter.take_all<fbs::RunEnded>().empty());
  CHECK(f.lives(f.target));
}

TEST_CASE("CRD-18: one that no majority has answered yet waits for the other heads") {
  cluster_of_heads f;
  f.join_all();
  f.pass_without_majority(30s);
  CHECK(f.warnings() == 1);
  CHECK(f.reporter.take_all<fbs::RunEnded>().empty());
  CHECK(f.assignments() == 0);
  f.ask_and_say_yes();
  CHECK(f.assignments() == 2);
}

TEST_CASE("CRD-18: so does one that begins a job again whose folder has incidents") {
  cluster_of_heads f(train::job_memory{});
  f.join_all();
  f.pass_without_majority(30s);
  CHECK(f.reporter.take_all<fbs::RunEnded>().empty());
  f.ask_and_say_yes();
  CHECK(f.assignments() == 2);
}

TEST_CASE("CRD-18: an elector that is late says nothing of the votes, and is asked again") {
  cluster_of_heads f;
  f.begin_elected();
  f.pass_with(4s, {0, 1});
  const auto asked = f.question();
  f.pass_with(20s, {0, 1});  // of which it stood still
  asked.refuse(no_answer());
  CHECK(f.reporter.take_all<fbs::RunEnded>().empty());
  CHECK(f.lives(f.target));
  f.pass(500ms);
  for (const auto& again : f.elector.take_all<fbs::Elect>()) f.say_nobody(again);
  CHECK(error_of(f.told_end()) == heads::no_majority(1, 3, 2));
}

TEST_CASE("CRD-18: one that goes on for a lost head and finds no majority acts no more") {
  train::job_memory of_head;
  of_head.lost = train::lost_head{"was killed", 7, 7, 0};
  cluster_of_heads f(of_head);
  f.join_all();
  f.pass_without_majority(9s);
  CHECK(f.reporter.take_all<fbs::RunEnded>().empty());
  f.pass_without_majority(2s);
  CHECK(error_of(f.told_end()) == heads::no_majority(1, 3, 2));
  CHECK(f.assignments() == 0);
  f.leaves_its_nodes_alone();
}

TEST_CASE("CRD-18: the end of the run is told to the elector, once, which tells other heads") {
  cluster_of_heads f;
  f.begin_elected();
  f.end_run();
  f.end_run();
  const auto ends = f.elector.take_all<fbs::HeadEnds>();
  REQUIRE(ends.size() == 1);
  CHECK(ends[0]->reason()->str() == by_request);
  CHECK(f.was_shut_down(0));
  CHECK(f.was_shut_down(1));
  CHECK(f.told_end().message == by_request);
  f.pass(1s);
  CHECK(f.elector.take_all<fbs::Elect>().empty());
}

TEST_CASE("CRD-19: it goes once the other heads know of the end, or do not say so in time") {
  for (const bool answers : {true, false}) {
    CAPTURE(answers);
    cluster_of_heads f;
    f.begin_elected();
    f.end_run();
    const auto ends = f.elector.take<fbs::HeadEnds>();
    CHECK(ends.is_request());
    for (const size_t node : {0, 1}) f.nodes[node].die();
    f.pass(1900ms);
    CHECK(f.lives(f.target));
    if (answers)
      ends.answer<fbs::Ack>();
    else
      f.pass(200ms);
    f.settle();
    CHECK_FALSE(f.lives(f.target));
  }
}

TEST_CASE("CRD-18: an elector that dies is the end of the run") {
  cluster_of_heads f;
  f.begin_elected();
  f.elector.die();
  CHECK(is_error(error_of(f.told_end()), run_died));
  CHECK(f.was_shut_down(0));
}

TEST_CASE("coordinator: who looks for a head, and votes, are the elector's") {
  cluster_of_heads f;
  const auto& asker = f.nodes[0];
  const auto sought = asker.ask(
      f.target, make_msg<fbs::FindHead>(f.context_of(0), [](auto& h) { h.name = "a"; }),
      asker.self());
  const auto find = f.elector.take<fbs::FindHead>();
  CHECK(find->name()->str() == "a");
  CHECK(find.handle(1) == asker.self());
  find.answer<fbs::HeadFound>([](auto& h) { h.epoch = 17; });
  const auto found = asker.answer_of<fbs::HeadFound>(sought);
  REQUIRE(found);
  CHECK((*found)->epoch() == 17);

  const auto wanted = asker.ask(
      f.target, make_msg<fbs::PromiseEpoch>(f.context_of(0), [](auto& p) { p.epoch = 9; }));
  const auto promise = f.elector.take<fbs::PromiseEpoch>();
  CHECK(promise->epoch() == 9);
  promise.answer<fbs::Promised>([](auto& p) { p.granted = true; });
  CHECK((*asker.answer_of<fbs::Promised>(wanted))->granted());

  const auto held = asker.ask(
      f.target, make_msg<fbs::HoldRecord>(f.context_of(0), [](auto& h) { h.head = "two:4002"; }));
  const auto hold = f.elector.take<fbs::HoldRecord>();
  CHECK(hold->head()->str() == "two:4002");
  hold.refuse({errc::io, "no space", {}, "no_space"});
  CHECK(is_error(asker.answer_of<fbs::Promised>(held), "no_space"));
}

TEST_CASE("coordinator: where a job has one head nobody is asked, and nobody votes") {
  scripted_cluster f;
  f.begin();  // without an Elected
  const auto& asker = f.nodes[0];
  const auto number = asker.ask(
      f.target, make_msg<fbs::FindHead>(f.context_of(0), [](auto& h) { h.name = "a"; }),
      asker.self());
  const auto answer = asker.answer_of<fbs::HeadFound>(number);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == errc::unavailable);
  CHECK_FALSE(asker.answer_of<fbs::Promised>(
      asker.ask(f.target, make_msg<fbs::PromiseEpoch>(f.context_of(0)))));
}
