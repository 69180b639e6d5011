// A node of a job with several heads: which one it joins, what its voter promises, whose orders it
// takes (NOD-7, NOD-8, NOD-9).
#include "actors/heads/vote_store.hpp"
#include "messages/any_msg.hpp"
#include "tests/actors/scripted_node.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::test;
using namespace std::chrono_literals;

namespace {

const std::vector<std::string> two_heads{"127.0.0.1:4711", "127.0.0.1:4712"};
const far_end first_head{"127.0.0.1", 4711}, second_head{"127.0.0.1", 4712};

/// The coordinator of the base is at the first head's place, `second` at the other one's, each in a
/// process of its own.
struct node_of_heads : scripted_node {
  scratch dir;
  partner second = make_partner("second", *caf::make_node_id(2, std::string(40, 'd')));
  partner elector_there = make_partner("elector there", coordinator.self()->node());
  config::launch_mode launch = config::launch_mode::external;

  fbs::WelcomeT welcome_in(uint32_t epoch) const {
    auto job = config::parse(job_with_meters(0), "job");
    REQUIRE(job);
    job->job.output = dir.path.string();
    job->recovery.enabled = true;
    job->recovery.head_grace_s = 5;
    job->cluster.heads = two_heads;
    job->cluster.launch = launch;
    auto w = welcome();
    w.epoch = epoch;
    w.config_toml = config::to_toml(*job);
    return w;
  }
  void put_up(const far_end& where, const partner& who) { wires->there[where] = who.self(); }
  /// It was told of one head, and learns of the other when it joins.
  void join_first() {
    options.coordinator_host = first_head.first;
    put_up(first_head, coordinator);
    start();
    coordinator.take<fbs::Hello>().answer<fbs::Welcome>(
        [&](auto& w) { w = welcome_in(node_epoch); });
    REQUIRE(ends->empty());
  }
  /// The same, with ranks.
  void train() {
    join_first();
    coordinator.take_all<fbs::FindHead>();
    REQUIRE(assigned(ranks_of({0, 1})));
  }
  /// How the head says it is that the node stands before.
  static void say(const partner& head, bool open, uint32_t epoch) {
    head.take<fbs::FindHead>().answer<fbs::HeadFound>([&](auto& f) {
      f.open = open;
      f.epoch = epoch;
    });
  }
  result<msg<fbs::Promised>> vote(const partner& by, uint32_t epoch) {
    return by.answer_of<fbs::Promised>(
        by.ask(target, make_msg<fbs::PromiseEpoch>(context_of(0), [&](auto& p) {
                 p.epoch = epoch;
                 p.head = two_heads[by.self() == second.self() ? 1 : 0];
               })));
  }
  bool promises(const partner& by, uint32_t epoch) {
    const auto given = vote(by, epoch);
    REQUIRE(given);
    return (*given)->granted();
  }
  result<msg<fbs::Promised>> hold(const partner& by, uint32_t epoch) {
    return by.answer_of<fbs::Promised>(
        by.ask(target, make_msg<fbs::HoldRecord>(context_of(0), [&](auto& h) {
                 const auto bytes = encode(make_msg<fbs::JobMemory>());
                 h.head = two_heads[by.self() == second.self() ? 1 : 0];
                 h.record = std::make_unique<fbs::HeldRecordT>();
                 h.record->epoch = epoch;
                 h.record->number = 1;
                 h.record->content.assign(bytes.begin(), bytes.end());
               })));
  }
  bool has_ranks() const { return living("stage/0") && living("worker/1") && living("loader/m"); }
};

}  // namespace

// -- which head -----------------------------------------------------------------------------------

TEST_CASE("NOD-7: node: of several heads it knocks at one after the other, and joins who acts") {
  node_of_heads f;
  f.options.heads = two_heads;
  f.options.join_timeout_ms = 30'000;
  f.start();
  f.pass(600ms);
  CHECK(f.wires->tried ==
        std::vector<far_end>{first_head, second_head, first_head, second_head});
  f.put_up(first_head, f.coordinator);
  f.put_up(second_head, f.second);
  f.pass(200ms);
  const auto asked = f.coordinator.take<fbs::FindHead>();
  CHECK(asked->name()->str() == "m");
  CHECK(asked->epoch() == 0);
  CHECK(asked.handle(1) == caf::actor_cast<caf::strong_actor_ptr>(f.target));
  asked.answer<fbs::HeadFound>([](auto& h) { h.epoch = 9; });  // it is about to act
  f.pass(200ms);
  f.say(f.second, true, node_epoch);
  f.second.take<fbs::Hello>().answer<fbs::Welcome>(
      [&](auto& w) { w = f.welcome_in(node_epoch); });
  f.pass(300ms);
  CHECK(f.second.take_all<fbs::Heartbeat>().size() == 1);
  CHECK(f.coordinator.idle());
  CHECK(f.goes_on());
}

TEST_CASE("NOD-7: node: a head that is silent, or knows nothing of heads, is passed over") {
  for (const bool silent : {true, false}) {
    CAPTURE(silent);
    node_of_heads f;
    f.options.heads = two_heads;
    f.options.join_timeout_ms = 30'000;
    f.put_up(first_head, f.coordinator);
    f.put_up(second_head, f.second);
    f.start();
    const auto asked = f.coordinator.take<fbs::FindHead>();
    if (!silent) asked.refuse({errc::unavailable, "this job has one head"});
    f.pass(silent ? 2200ms : 200ms);
    f.say(f.second, true, node_epoch);
    f.second.take<fbs::Hello>();
    CHECK(f.goes_on());
  }
}

TEST_CASE("NOD-7: node: the heads that it looks for are those of its job, once it has joined") {
  node_of_heads f;
  f.train();
  f.wires->tried.clear();
  f.coordinator.die();
  f.put_up(second_head, f.second);
  f.wires->there.erase(first_head);
  f.pass(800ms);
  CHECK(std::set<far_end>(f.wires->tried.begin(), f.wires->tried.end()) ==
        std::set<far_end>{first_head, second_head});
  CHECK(f.has_ranks());  // until it stands before one that acts
  f.say(f.second, true, node_epoch + 1);
  CHECK_FALSE(f.has_ranks());
  CHECK(f.second.take<fbs::Hello>()->epoch() == node_epoch);
}

TEST_CASE("NOD-7: node: one that acts in an older epoch than it has promised is not joined") {
  node_of_heads f;
  f.train();
  f.coordinator.die();
  REQUIRE(f.promises(f.second, node_epoch + 3));
  auto old = f.make_partner("old", *caf::make_node_id(3, std::string(40, 'e')));
  f.wires->there.clear();
  f.put_up(first_head, old);
  f.pass(500ms);
  f.say(old, true, node_epoch + 2);
  CHECK(old.idle());
  CHECK(f.has_ranks());
  f.put_up(second_head, f.second);
  f.pass(500ms);
  f.say(f.second, true, node_epoch + 3);
  f.second.take<fbs::Hello>();
}

TEST_CASE("NOD-7: node: a coordinator that is silent is left where there are several heads") {
  node_of_heads f;
  f.train();
  f.pass_answered(1s);
  f.put_up(second_head, f.second);
  f.pass(1250ms);
  REQUIRE(f.goes_on());
  CHECK(f.has_ranks());
  f.pass(2700ms);  // the first one does not say how it is either
  f.say(f.second, true, node_epoch + 1);
  const auto hello = f.second.take<fbs::Hello>();
  // The silent one wakes up: it is not its coordinator any more.
  f.shut_down();
  hello.answer<fbs::Welcome>([&](auto& w) { w = f.welcome_in(node_epoch + 1); });
  f.coordinator.die();
  f.second.take_all<fbs::FindHead>();
  f.pass(600ms);
  CHECK(f.second.take_all<fbs::Heartbeat>().size() == 2);  // one clock, not two
  CHECK(f.goes_on());
}

TEST_CASE("NOD-7: node: where no head comes within the grace it ends, as where there is one") {
  node_of_heads f;
  f.train();
  f.wires->there.clear();
  f.coordinator.die();
  f.pass(4900ms);
  CHECK(f.goes_on());
  f.pass(700ms);
  CHECK(is_error(f.ended(), coordinator_lost));
}

// -- its vote -------------------------------------------------------------------------------------

TEST_CASE("NOD-8: node: a head that it joined is told that it has a voter") {
  node_of_heads f;
  f.join_first();
  const auto told = f.coordinator.take<fbs::FindHead>();
  CHECK(told->name()->str() == "m");
  CHECK(told.handle(1) == caf::actor_cast<caf::strong_actor_ptr>(f.target));
  REQUIRE(f.living("voter/m"));
  f.coordinator.die();
  CHECK(f.living("voter/m"));
}

TEST_CASE("NOD-8: node: while it has a head its voter promises nothing to another") {
  node_of_heads f;
  f.train();
  CHECK(is_error(f.vote(f.second, 9), has_head, "m"));
  CHECK(is_error(f.hold(f.second, 9), has_head, "m"));
  // Its head's process asks by its elector.
  CHECK(f.promises(f.elector_there, node_epoch));
  const auto held = f.hold(f.elector_there, node_epoch);
  REQUIRE(held);
  CHECK((*held)->granted());
  CHECK(f.promises(f.coordinator, node_epoch + 1));
}

TEST_CASE("NOD-8: node: one that has lost its head votes for whoever asks first") {
  node_of_heads f;
  f.train();
  REQUIRE(f.promises(f.elector_there, node_epoch));
  f.coordinator.die();
  CHECK_FALSE(f.promises(f.second, node_epoch));  // it is another's
  CHECK(f.promises(f.second, node_epoch + 1));
  CHECK_FALSE(f.promises(f.elector_there, node_epoch + 1));
  const auto held = f.hold(f.second, node_epoch + 1);
  REQUIRE(held);
  CHECK((*held)->granted());
  CHECK(f.has_ranks());
  // What it promised is on the disk.
  CHECK(heads::latest_promise(io::local_files(), f.dir.path) == node_epoch + 1);
}

TEST_CASE("NOD-8: node: one that its head started, or that has not joined, has no vote") {
  node_of_heads local;
  local.launch = config::launch_mode::local;
  local.join_first();
  CHECK(local.coordinator.take_all<fbs::FindHead>().empty());
  CHECK_FALSE(local.living("voter/m"));
  CHECK(is_error(local.vote(local.coordinator, 9), no_voter, "m"));
  local.coordinator.die();
  CHECK(is_error(local.vote(local.second, 9), no_voter, "m"));

  node_of_heads early;
  early.start();
  CHECK(is_error(early.vote(early.second, 9), no_voter, "m"));
  CHECK(is_error(early.hold(early.second, 9), no_voter, "m"));
}

// -- whose orders ---------------------------------------------------------------------------------

TEST_CASE("NOD-9: node: ranks are given and taken by its own head alone") {
  node_of_heads f;
  f.join_first();
  f.coordinator.take_all<fbs::FindHead>();
  const auto assign_by = [&](const partner& head, uint32_t epoch) {
    return head.answer_of<fbs::Assigned>(head.ask(
        f.target, make_msg<fbs::Assign>(f.context_of(epoch), node_of_heads::ranks_of({0, 1}))));
  };
  const auto suspend_by = [&](const partner& head, uint32_t epoch) {
    return head.answer_of<fbs::Suspended>(
        head.ask(f.target, make_msg<fbs::Suspend>(f.context_of(epoch))));
  };
  CHECK(is_error(assign_by(f.second, node_epoch), not_its_head, "m"));
  CHECK_FALSE(f.living("stage/0"));
  REQUIRE(assign_by(f.coordinator, node_epoch));
  CHECK(is_error(suspend_by(f.second, node_epoch + 1), not_its_head, "m"));
  CHECK(f.has_ranks());
  // It has not moved into the other one's epoch either.
  REQUIRE(suspend_by(f.coordinator, node_epoch));
  CHECK_FALSE(f.has_ranks());
  REQUIRE(assign_by(f.coordinator, node_epoch));
  // Nor does it obey anybody while it has none.
  f.coordinator.die();
  CHECK(is_error(suspend_by(f.second, node_epoch + 1), not_its_head));
  CHECK(f.has_ranks());
  CHECK(f.goes_on());
}

TEST_CASE("NOD-9: node: it is ended by its own head alone, or from its own process") {
  const auto shut_down = [](node_of_heads& f, const partner& by) {
    by.tell(f.target, make_msg<fbs::Shutdown>(f.context_of(node_epoch)));
  };
  const auto send_exit = [](node_of_heads& f, const partner& by) {
    f.deliver(nullptr, caf::actor_cast<caf::strong_actor_ptr>(f.target), caf::make_message_id(),
              caf::exit_msg{caf::actor_cast<caf::actor_addr>(by.self()),
                            caf::make_error(caf::exit_reason::user_shutdown)});
  };
  for (const auto& end : {std::function(shut_down), std::function(send_exit)}) {
    for (const bool of_own_process : {false, true}) {
      CAPTURE(of_own_process);
      node_of_heads f;
      f.train();
      end(f, f.second);
      CHECK(f.goes_on());
      CHECK(f.has_ranks());
      if (of_own_process)
        send_exit(f, f.person);
      else
        end(f, f.coordinator);
      f.ended();
    }
    node_of_heads bereft;
    bereft.train();
    bereft.coordinator.die();
    end(bereft, bereft.second);
    end(bereft, bereft.elector_there);  // of the head that it has lost
    CHECK(bereft.goes_on());
  }
}

TEST_CASE("NOD-9: node: where there is one head its orders are taken from wherever they come") {
  scripted_node f;
  f.join();
  const auto other = f.make_partner("other", *caf::make_node_id(2, std::string(40, 'd')));
  other.tell(f.target, make_msg<fbs::Shutdown>(f.context_of(node_epoch)));
  CHECK(f.ended().code == errc::none);
}
