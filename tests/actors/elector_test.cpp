// The elector between scripted heads, nodes and a scripted network: whose votes it asks for, when
// it says that a majority follows, to whom it gives its own vote, and when a standby wants to act.
#include "actors/heads/elector.hpp"

#include <fstream>
#include <map>

#include <doctest/doctest.h>

#include "messages/any_msg.hpp"
#include "tests/actors/scripted_node.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::heads;
using namespace std::chrono_literals;
using troupe::cluster::test::far_end;
using troupe::test::partner;
using troupe::test::told;

namespace {

const std::vector<std::string> three_heads{"one:4001", "two:4002", "three:4003"};
const std::vector<far_end> places_of_heads{{"one", 4001}, {"two", 4002}, {"three", 4003}};

struct elector_setting {
  size_t own = 0;       ///< which of the heads it is
  uint32_t acting = 0;  ///< 0: it stands by
  held_records begins_with = {};
  bool nodes_vote = false;  ///< n0 and n1, beside the heads
  bool job_runs = false, at_once = false;
  bool has_vote = true;
};

/// The elector of one head of three.
struct scripted_electorate : troupe::test::actor_fixture {
  scratch dir;
  std::vector<partner> others{at("one", '1'), at("two", '2'), at("three", '3')};
  std::vector<partner> nodes{at("n0", '4'), at("n1", '5')};
  partner coordinator = make_partner("coordinator");
  std::shared_ptr<cluster::test::wiring> wires = std::make_shared<cluster::test::wiring>();
  std::vector<won_epoch> decisions;
  std::vector<std::string> overs;
  elector_actor target;

  explicit scripted_electorate(const elector_setting& how) : actor_fixture(0) {
    if (!how.has_vote) std::ofstream(dir / votes_folder) << "a file where the folder should be";
    elector_options o;
    o.name = three_heads[how.own];
    o.cluster.heads = three_heads;
    o.cluster.node = {{"n0", "hosta", 1}, {"n1", "hostb", 1}};
    o.cluster.launch =
        how.nodes_vote ? config::launch_mode::external : config::launch_mode::local;
    o.output = dir.path;
    o.acting = how.acting;
    o.begins_with = how.begins_with;
    o.takeover.place = static_cast<uint32_t>(how.own);
    o.takeover.job_runs = how.job_runs;
    o.takeover.at_once = how.at_once;
    o.decided = [this](const won_epoch& w) { decisions.push_back(w); };
    o.over = [this](const std::string& reason) { overs.push_back(reason); };
    const auto wire = spawn(cluster::test::scripted_connector, wires);
    o.connector = [wire](caf::actor_system&) { return wire; };
    target = spawn(elector, std::move(o));
    pass(0ns);
  }
  /// In a process of its own.
  partner at(const std::string& name, char host) {
    return make_partner(name, *caf::make_node_id(1, std::string(40, host)));
  }

  // -- others say how they are --

  result<msg<fbs::HeadFound>> seek(const partner& who, const std::string& name, uint32_t epoch = 0,
                                   uint64_t step = 0) {
    const auto number = who.ask(target, make_msg<fbs::FindHead>(context_of(0), [&](auto& f) {
                                  f.name = name;
                                  f.epoch = epoch;
                                  f.step = step;
                                }),
                                who.self());
    return who.answer_of<fbs::HeadFound>(number);
  }
  /// It is within reach from then on, and acts in this epoch; 0: it stands by.
  void hear(size_t head, uint32_t epoch = 0) {
    REQUIRE(seek(others[head], three_heads[head], epoch));
  }
  void answer_how(size_t head, uint32_t epoch, int64_t behind_ns = 0) {
    for (const auto& asked : others[head].take_all<fbs::FindHead>())
      asked.answer<fbs::HeadFound>([&](auto& f) {
        f.name = three_heads[head];
        f.epoch = epoch;
        f.open = epoch > 0;
        f.now_ns = now_ns() - behind_ns;
      });
  }
  /// Time in which these heads answer how they are.
  void pass_with(std::chrono::milliseconds time, const std::map<size_t, uint32_t>& acting) {
    for (; time > 0ms; time -= 50ms) {
      pass(50ms);
      for (const auto& [head, epoch] : acting) answer_how(head, epoch);
    }
  }

  // -- votes that it wants --

  uint64_t elect(uint32_t epoch) {
    return coordinator.ask(target, make_msg<fbs::Elect>(context_of(0), [&](auto& e) {
                             e.epoch = epoch;
                           }));
  }
  uint64_t share(const std::string& content) {
    return coordinator.ask(target, make_msg<fbs::ShareRecord>(context_of(0), [&](auto& s) {
                             s.content.assign(content.begin(), content.end());
                           }));
  }
  result<msg<fbs::Elected>> elected(uint64_t number) const {
    return coordinator.answer_of<fbs::Elected>(number);
  }
  /// The only PromiseEpoch, or HoldRecord, since the last look.
  template <class T>
  static told<T> wanted(const partner& who) {
    auto all = who.take_all<T>();
    REQUIRE(all.size() == 1);
    return all[0];
  }
  static bool was_asked(const partner& who) {
    return !who.take_all<fbs::PromiseEpoch>().empty() || !who.take_all<fbs::HoldRecord>().empty();
  }
  template <class T>
  static void grant(const told<T>& asked, const held_records& held = {}) {
    asked.template answer<fbs::Promised>([&](fbs::PromisedT& p) {
      p.granted = true;
      for (const auto& [kind, record] : held)
        p.held.push_back(std::make_unique<fbs::HeldRecordT>(to_message(record)));
    });
  }
  template <class T>
  static void refuse(const told<T>& asked, uint32_t epoch, size_t follows) {
    asked.template answer<fbs::Promised>([&](auto& p) {
      p.epoch = epoch;
      p.head = three_heads[follows];
    });
  }

  // -- its own vote --

  bool promises(const partner& who, const std::string& name, uint32_t epoch) {
    const auto number = who.ask(target, make_msg<fbs::PromiseEpoch>(context_of(0), [&](auto& p) {
                                  p.epoch = epoch;
                                  p.head = name;
                                }));
    const auto answer = who.answer_of<fbs::Promised>(number);
    REQUIRE(answer);
    return (*answer)->granted();
  }
  bool promises(size_t head, uint32_t epoch) {
    return promises(others[head], three_heads[head], epoch);
  }
  bool holds(size_t head, const held_record& record) {
    const auto number =
        others[head].ask(target, make_msg<fbs::HoldRecord>(context_of(0), [&](auto& h) {
                           h.head = three_heads[head];
                           h.record = std::make_unique<fbs::HeldRecordT>(to_message(record));
                         }));
    const auto answer = others[head].answer_of<fbs::Promised>(number);
    REQUIRE(answer);
    return (*answer)->granted();
  }
  void end_job(const partner& by) {
    by.tell(target, make_msg<fbs::HeadEnds>(context_of(0), [](auto& e) { e.reason = "done"; }));
  }
  fbs::ElectorStatusT status() {
    const auto number = coordinator.ask(target, make_msg<fbs::StatusRequest>());
    const auto answer = coordinator.answer_of<fbs::Status>(number);
    REQUIRE(answer);
    return *answer->unpack().values->elector;
  }
};

/// A standby, the second of three, that has heard the first one act in this epoch.
struct standing_by : scripted_electorate {
  explicit standing_by(uint32_t acting = 4) : scripted_electorate({.own = 1}) {
    hear(0, acting);
    hear(2);
  }
};

template <class T>
std::string as_content(const typename T::NativeTableType& what) {
  const auto bytes = encode(make_msg<T>({}, what));
  return {bytes.begin(), bytes.end()};
}

/// The decisions of a head before, by kind.
held_records decided_before(uint32_t epoch, const std::string& pause_reason = "lunch") {
  fbs::JobMemoryT job;
  job.paused = true;
  job.pause_reason = pause_reason;
  fbs::ClusterMemoryT cluster;
  cluster.nodes = {"a", "b"};
  return {{message_traits<fbs::JobMemory>::id, {epoch, 8, as_content<fbs::JobMemory>(job)}},
          {message_traits<fbs::ClusterMemory>::id,
           {epoch, 9, as_content<fbs::ClusterMemory>(cluster)}}};
}

std::string content_of(const told<fbs::HoldRecord>& asked) {
  const auto& bytes = *asked->record()->content();
  return {bytes.begin(), bytes.end()};
}

}  // namespace

// -- a head that acts -----------------------------------------------------------------------------

TEST_CASE("ELC-1: Elect is answered once a majority has promised, each asked anew") {
  scripted_electorate f({.acting = 5});
  f.hear(1);
  f.hear(2);
  const auto first = f.elect(5);
  CHECK(is_error(f.elected(first), ""));  // its own vote is one of three
  const auto asked = f.wanted<fbs::PromiseEpoch>(f.others[1]);
  CHECK(asked->epoch() == 5);
  CHECK(asked->head()->str() == three_heads[0]);
  f.grant(asked);
  REQUIRE(f.elected(first));
  CHECK((*f.elected(first))->voters() == 2);
  f.grant(f.wanted<fbs::PromiseEpoch>(f.others[2]));  // too late to matter
  // A commit asks about the same epoch: what was said before does not count.
  const auto second = f.elect(0);
  CHECK_FALSE(f.elected(second));
  CHECK(f.wanted<fbs::PromiseEpoch>(f.others[1])->epoch() == 5);
  const auto again = f.wanted<fbs::PromiseEpoch>(f.others[2]);
  CHECK(again->epoch() == 5);
  CHECK_FALSE(f.elected(second));
  f.grant(again);
  REQUIRE(f.elected(second));
}

TEST_CASE("ELC-1: an Elect without an epoch is about the one that was asked for last") {
  scripted_electorate f({.acting = 5});
  f.hear(1);
  f.grant([&] {
    f.elect(8);
    return f.wanted<fbs::PromiseEpoch>(f.others[1]);
  }());
  f.elect(0);
  CHECK(f.wanted<fbs::PromiseEpoch>(f.others[1])->epoch() == 8);
  CHECK((*f.seek(f.others[1], three_heads[1]))->epoch() == 8);
}

TEST_CASE("ELC-1: it is outvoted once so many refuse that no majority can be had") {
  scripted_electorate f({.acting = 5});
  f.hear(1);
  f.hear(2);
  const auto number = f.elect(5);
  f.refuse(f.wanted<fbs::PromiseEpoch>(f.others[1]), 8, 2);
  CHECK(is_error(f.elected(number), ""));  // the third one may still promise
  f.refuse(f.wanted<fbs::PromiseEpoch>(f.others[2]), 9, 2);
  REQUIRE_FALSE(f.elected(number));
  CHECK(f.elected(number).error() == outvoted(9, three_heads[2]));
}

TEST_CASE("ELC-1: where too few can be reached that is said after a while, with their number") {
  scripted_electorate f({.acting = 5});
  const auto number = f.elect(5);
  f.pass(4900ms);
  CHECK(is_error(f.elected(number), ""));
  f.pass(400ms);
  CHECK(f.elected(number).error() == no_majority(1, 3, 2));
}

TEST_CASE("ELC-1: voters that are silent, refuse to answer, or come late are asked again") {
  scripted_electorate f({.acting = 5});
  f.hear(1);
  const auto silent = f.elect(5);
  f.wanted<fbs::PromiseEpoch>(f.others[1]);
  f.pass(2900ms);
  CHECK_FALSE(f.was_asked(f.others[1]));  // its answer is under way
  f.pass(400ms);
  f.wanted<fbs::PromiseEpoch>(f.others[1]).refuse({errc::unavailable, "its disk is full"});
  f.pass(250ms);
  f.wanted<fbs::PromiseEpoch>(f.others[1]);
  f.hear(2);
  f.grant(f.wanted<fbs::PromiseEpoch>(f.others[2]));  // at once
  CHECK(f.elected(silent));
}

TEST_CASE("ELC-1: without a vote of its own it needs a majority of the others") {
  scripted_electorate f({.acting = 5, .has_vote = false});
  f.hear(1);
  f.hear(2);
  const auto number = f.elect(5);
  f.grant(f.wanted<fbs::PromiseEpoch>(f.others[1]));
  CHECK(is_error(f.elected(number), ""));
  f.grant(f.wanted<fbs::PromiseEpoch>(f.others[2]));
  REQUIRE(f.elected(number));
  CHECK((*f.elected(number))->voters() == 2);
}

TEST_CASE("elector: nodes vote where others than the job start them, and strangers never") {
  for (const bool vote : {true, false}) {
    CAPTURE(vote);
    scripted_electorate f({.acting = 5, .nodes_vote = vote});
    const auto stranger = f.at("stranger", '9');
    for (const size_t node : {0, 1}) {
      const auto found = f.seek(f.nodes[node], node == 0 ? "n0" : "n1");
      REQUIRE(found);
      CHECK((*found)->name()->str() == three_heads[0]);
      CHECK((*found)->epoch() == 5);
      CHECK((*found)->open());
      CHECK((*found)->now_ns() == f.now_ns());
    }
    REQUIRE(f.seek(stranger, "n7"));
    f.pass(250ms);
    const auto number = f.elect(5);
    CHECK_FALSE(f.was_asked(stranger));
    CHECK(f.status().voters == (vote ? 5 : 3));
    CHECK(f.status().reachable == (vote ? 3 : 1));
    if (!vote) {
      CHECK_FALSE(f.was_asked(f.nodes[0]));
      continue;
    }
    // Itself and two nodes of five voters.
    f.grant(f.wanted<fbs::PromiseEpoch>(f.nodes[0]));
    CHECK(is_error(f.elected(number), ""));
    f.grant(f.wanted<fbs::PromiseEpoch>(f.nodes[1]));
    CHECK(f.elected(number));
    f.nodes[1].die();
    f.pass(250ms);
    CHECK(f.status().reachable == 2);
  }
}

TEST_CASE("ELC-2: what the head before decided is held by a majority before it acts") {
  const auto before = decided_before(4);
  scripted_electorate f({.acting = 6, .begins_with = before});
  f.hear(1);
  const auto number = f.elect(6);
  f.grant(f.wanted<fbs::PromiseEpoch>(f.others[1]));
  std::set<std::string> held;
  for (uint64_t n = 1; n <= 2; ++n) {
    CHECK(is_error(f.elected(number), ""));
    const auto asked = f.wanted<fbs::HoldRecord>(f.others[1]);
    CHECK(asked->head()->str() == three_heads[0]);
    CHECK(asked->record()->epoch() == 6);  // its own epoch, which is newer than any before
    CHECK(asked->record()->number() == n);
    held.insert(content_of(asked));
    f.grant(asked);
  }
  REQUIRE(f.elected(number));
  for (const auto& [kind, record] : before) CHECK(held.contains(record.content));
  f.elect(6);
  f.grant(f.wanted<fbs::PromiseEpoch>(f.others[1]));
  CHECK_FALSE(f.was_asked(f.others[1]));  // once
}

TEST_CASE("ELC-2: what no majority holds yet is held before a later Elect is answered") {
  scripted_electorate f({.acting = 6, .begins_with = decided_before(4)});
  f.hear(1);
  f.hear(2);
  const auto first = f.elect(6);
  for (const size_t head : {1, 2}) f.grant(f.wanted<fbs::PromiseEpoch>(f.others[head]));
  for (const size_t head : {1, 2})
    f.refuse(f.wanted<fbs::HoldRecord>(f.others[head]), 7, 2);
  REQUIRE_FALSE(f.elected(first));
  CHECK(f.elected(first).error() == outvoted(7, three_heads[2]));
  const auto second = f.elect(8);
  f.grant(f.wanted<fbs::PromiseEpoch>(f.others[1]));
  for (int n = 0; n < 2; ++n) {
    CHECK(is_error(f.elected(second), ""));
    const auto asked = f.wanted<fbs::HoldRecord>(f.others[1]);
    CHECK(asked->record()->epoch() == 8);
    f.grant(asked);
  }
  CHECK(f.elected(second));
}

TEST_CASE("elector: a record is acknowledged once a majority holds it, each under its number") {
  scripted_electorate f({.acting = 5});
  f.hear(1);
  f.hear(2);
  const auto content = decided_before(1).begin()->second.content;
  for (const uint64_t n : {1, 2}) {
    const auto number = f.share(content);
    CHECK(is_error(f.coordinator.answer_of<fbs::Ack>(number), ""));
    const auto asked = f.wanted<fbs::HoldRecord>(f.others[1]);
    f.wanted<fbs::HoldRecord>(f.others[2]);
    CHECK(asked->record()->epoch() == 5);
    CHECK(asked->record()->number() == n);
    CHECK(content_of(asked) == content);
    f.grant(asked);
    CHECK(f.coordinator.answer_of<fbs::Ack>(number));
  }
  const auto number = f.share(content);
  for (const size_t head : {1, 2})
    f.refuse(f.wanted<fbs::HoldRecord>(f.others[head]), 7, 2);
  CHECK(f.coordinator.answer_of<fbs::Ack>(number).error() == outvoted(7, three_heads[2]));
}

// -- its own vote ---------------------------------------------------------------------------------

TEST_CASE("ELC-4: a head that acts gives its vote to no other") {
  scripted_electorate f({.acting = 5});
  f.hear(1);
  CHECK_FALSE(f.promises(1, 9));
  auto record = decided_before(9).begin()->second;
  CHECK_FALSE(f.holds(1, record));
  CHECK(f.status().promised == 0);
  const auto number = f.elect(5);
  f.grant(f.wanted<fbs::PromiseEpoch>(f.others[1]));
  CHECK(f.elected(number));
}

TEST_CASE("ELC-4: a standby that hears a head act gives its vote to that one alone") {
  standing_by f;
  const auto record = decided_before(5).begin()->second;
  CHECK_FALSE(f.promises(2, 5));
  CHECK_FALSE(f.holds(2, record));
  CHECK(f.promises(0, 5));  // its next epoch
  CHECK(f.holds(0, record));
  CHECK_FALSE(f.promises(0, 4));  // PRM-2
}

TEST_CASE("ELC-4: a standby that hears no head any more votes as any voter, for the first") {
  for (const bool breaks : {true, false}) {
    CAPTURE(breaks);
    standing_by f;
    f.pass(9s);
    CHECK_FALSE(f.promises(2, 5));
    if (breaks)
      f.others[0].die();
    else
      f.pass(1s);
    CHECK(f.promises(2, 5));
    CHECK_FALSE(f.promises(f.coordinator, three_heads[0], 5));  // PRM-1
  }
}

TEST_CASE("ELC-4: what it has promised is found by the next elector of this head") {
  standing_by f;
  REQUIRE(f.promises(0, 7));
  caf::anon_send_exit(f.target, caf::exit_reason::kill);
  f.settle();
  elector_options o;
  o.name = three_heads[1];
  o.cluster.heads = three_heads;
  o.output = f.dir.path;
  const auto wire = f.spawn(cluster::test::scripted_connector, f.wires);
  o.connector = [wire](caf::actor_system&) { return wire; };
  f.target = f.spawn(elector, std::move(o));
  CHECK_FALSE(f.promises(2, 7));
  CHECK(f.promises(2, 8));
}

// -- standing by ----------------------------------------------------------------------------------

TEST_CASE("TKO-1: a standby asks for the next epoch once the head has been silent for long") {
  standing_by f;
  f.pass_with(5s, {{0, 4}, {2, 0}});
  CHECK_FALSE(f.was_asked(f.others[2]));
  f.pass_with(10s, {{2, 0}});
  CHECK_FALSE(f.was_asked(f.others[2]));
  f.pass_with(1s, {{2, 0}});
  const auto asked = f.wanted<fbs::PromiseEpoch>(f.others[2]);
  CHECK(asked->epoch() == 5);
  CHECK(asked->head()->str() == three_heads[1]);
  CHECK(f.was_asked(f.others[0]));  // it may be well and merely slow
}

TEST_CASE("TKO-1: a job that is not known to run is begun by no standby, unless it is told to") {
  for (const bool at_once : {false, true}) {
    CAPTURE(at_once);
    scripted_electorate f({.own = 1, .at_once = at_once});
    f.hear(0);
    f.hear(2);
    f.pass(at_once ? 300ms : 60'000ms);
    CHECK(f.was_asked(f.others[2]) == at_once);
    CHECK(f.status().promised == 0);  // ELC-5
  }
}

TEST_CASE("TKO-1: a head that knows that the job runs waits once for the one that acts") {
  scripted_electorate f({.own = 1, .job_runs = true});
  f.hear(2);
  f.pass(10s);
  CHECK_FALSE(f.was_asked(f.others[2]));
  f.pass(1s);
  CHECK(f.was_asked(f.others[2]));
}

TEST_CASE("TKO-1: after a promise to another one a standby waits until that one acts") {
  standing_by f;
  f.others[0].die();
  REQUIRE(f.promises(2, 5));
  f.pass_with(20s, {{2, 0}});
  CHECK_FALSE(f.was_asked(f.others[2]));
  f.pass_with(1s, {{2, 0}});
  CHECK(f.wanted<fbs::PromiseEpoch>(f.others[2])->epoch() == 6);
}

TEST_CASE("TKO-2: a standby asks nobody while no majority is within reach") {
  scripted_electorate f({.own = 1});
  f.hear(0, 4);
  f.others[0].die();
  f.pass(60s);
  CHECK(f.status().reachable == 1);
  CHECK(f.status().promised == 0);
  f.hear(2);
  f.pass(250ms);
  CHECK(f.wanted<fbs::PromiseEpoch>(f.others[2])->epoch() == 5);
}

TEST_CASE("TKO-3: after a round that was lost it pauses, and asks for a later epoch") {
  standing_by f;
  f.pass(11s);
  f.refuse(f.wanted<fbs::PromiseEpoch>(f.others[0]), 4, 0);
  f.refuse(f.wanted<fbs::PromiseEpoch>(f.others[2]), 7, 2);
  f.pass(1400ms);  // a second, and half of one for its place
  CHECK_FALSE(f.was_asked(f.others[2]));
  f.pass(400ms);
  CHECK(f.wanted<fbs::PromiseEpoch>(f.others[2])->epoch() == 8);
  CHECK(f.decisions.empty());
}

TEST_CASE("ELC-3: a standby that wins decides once, with what a majority held") {
  scripted_electorate f({.own = 1, .nodes_vote = true});
  REQUIRE(f.seek(f.nodes[0], "n0", 0, 17));
  f.hear(0, 4);
  f.hear(2);
  f.pass(250ms);
  f.answer_how(0, 4, 500);
  const auto heard_ns = f.now_ns();
  f.others[0].die();
  f.pass(11s);
  f.grant(f.wanted<fbs::PromiseEpoch>(f.others[2]), decided_before(3, "older"));
  CHECK(f.decisions.empty());  // two of five
  f.grant(f.wanted<fbs::PromiseEpoch>(f.nodes[0]), decided_before(4, "newer"));
  REQUIRE(f.decisions.size() == 1);
  const auto& won = f.decisions[0];
  CHECK(won.epoch == 5);
  CHECK(won.held == decided_before(4, "newer"));
  CHECK(won.lost_head == three_heads[0]);
  CHECK_FALSE(won.how.empty());
  CHECK(won.lost_ns == heard_ns);
  CHECK(won.clock_ahead_ns == 500);
  CHECK(won.step == 17);
  CHECK(won.voters == 3);
  // Nodes do not join before the head is there; nobody else has its vote; it asks no more.
  const auto found = f.seek(f.nodes[1], "n1");
  REQUIRE(found);
  CHECK((*found)->epoch() == 5);
  CHECK_FALSE((*found)->open());
  CHECK_FALSE(f.promises(2, 9));
  f.pass(60s);
  CHECK_FALSE(f.was_asked(f.others[2]));
  f.end_job(f.others[2]);
  CHECK(f.decisions.size() == 1);
  CHECK(f.overs.empty());
}

TEST_CASE("ELC-3: the end of the job ends a standby, which never asks for an epoch again") {
  standing_by f;
  f.end_job(f.others[0]);
  f.end_job(f.others[0]);
  CHECK(f.overs == std::vector<std::string>{"done"});
  f.others[0].die();
  f.pass(60s);
  CHECK_FALSE(f.was_asked(f.others[2]));
  CHECK(f.decisions.empty());
}

TEST_CASE("ELC-3: a head that acts passes the end of the job on to the others") {
  scripted_electorate f({.acting = 5});
  f.hear(1);
  f.hear(2);
  f.end_job(f.coordinator);
  for (const size_t head : {1, 2}) {
    const auto ends = f.others[head].take_all<fbs::HeadEnds>();
    REQUIRE(ends.size() == 1);
    CHECK(ends[0]->reason()->str() == "done");
  }
  CHECK(f.overs.empty());
}

// -- who reaches whom -----------------------------------------------------------------------------

TEST_CASE("elector: of two heads the later one in the list knocks at the other") {
  for (size_t own = 0; own < three_heads.size(); ++own) {
    CAPTURE(own);
    scripted_electorate f({.own = own});
    f.pass(1s);
    const std::set<far_end> tried(f.wires->tried.begin(), f.wires->tried.end());
    CHECK(tried == std::set<far_end>(places_of_heads.begin(),
                                     places_of_heads.begin() + static_cast<std::ptrdiff_t>(own)));
  }
}

TEST_CASE("elector: whom it has found it asks how it is, and knocks again once that is lost") {
  scripted_electorate f({.own = 1});
  f.wires->there[places_of_heads[0]] = f.others[0].self();
  f.pass(2500ms);
  const auto asked = f.wanted<fbs::FindHead>(f.others[0]);
  CHECK(asked->name()->str() == three_heads[1]);
  CHECK(asked->epoch() == 0);
  CHECK(asked.handle(1) == caf::actor_cast<caf::strong_actor_ptr>(f.target));
  asked.answer<fbs::HeadFound>();
  CHECK(f.status().reachable == 2);
  f.wires->tried.clear();
  f.pass(1s);
  CHECK(f.wires->tried.empty());
  f.wires->there.clear();
  f.others[0].die();
  f.pass(3s);
  CHECK(f.status().reachable == 1);
  CHECK_FALSE(f.wires->tried.empty());
}

TEST_CASE("ELC-5: a standby that is cut off for a while follows the head that acts once back") {
  standing_by f;
  f.others[0].die();  // from it alone: the third still hears it, and refuses
  for (int i = 0; i < 150; ++i) {
    f.pass_with(100ms, {{2, 0}});
    for (const auto& p : f.others[2].take_all<fbs::PromiseEpoch>()) f.refuse(p, 4, 0);
  }
  CHECK(f.status().promised < 5);  // its own vote comes last
  f.others[0] = f.at("one again", '1');
  f.hear(0, 4);
  size_t asked = 0;
  for (int i = 0; i < 100; ++i) {
    f.pass_with(100ms, {{0, 4}, {2, 0}});
    for (const size_t h : {0, 2})
      for (const auto& p : f.others[h].take_all<fbs::PromiseEpoch>()) {
        ++asked;
        f.refuse(p, 4, 0);
      }
  }
  CHECK(asked <= 1);  // by the round that was under way
}
