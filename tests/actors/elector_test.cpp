// The elector between scripted heads, nodes and a scripted network: whose votes it asks for, when
// it says that a majority follows, to whom it gives its own vote, and when a standby wants to act.
#include "tests/actors/scripted_electorate.hpp"

using namespace troupe;
using namespace troupe::heads;
using namespace troupe::heads::test;
using namespace std::chrono_literals;

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

TEST_CASE("ELC-2: what a head says is newer than what it begins with, whichever is held first") {
  const auto before = decided_before(4);
  REQUIRE(before.size() == 2);
  scripted_electorate f({.acting = 6, .begins_with = before});
  f.hear(1);
  f.elect(6);
  f.share(before.begin()->second.content);  // before the majority has promised
  CHECK(f.wanted<fbs::HoldRecord>(f.others[1])->record()->number() == 3);
  f.grant(f.wanted<fbs::PromiseEpoch>(f.others[1]));
  for (uint64_t n = 1; n <= 2; ++n) {
    const auto asked = f.wanted<fbs::HoldRecord>(f.others[1]);
    CHECK(asked->record()->number() == n);
    f.grant(asked);
  }
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
  for (int twice = 0; twice < 2; ++twice)
    CHECK(f.others[0].answer_of<fbs::Ack>(f.end_job(f.others[0])));
  const auto kept = end_of_job(io::local_files(), f.dir.path);
  REQUIRE(kept);
  CHECK(kept->epoch == 4);
  CHECK(kept->reason == "done");
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
  const auto told = f.end_job(f.coordinator);
  std::vector<troupe::test::told<fbs::HeadEnds>> ends;
  for (const size_t head : {1, 2}) {
    ends.push_back(f.wanted<fbs::HeadEnds>(f.others[head]));
    CHECK(ends.back()->reason()->str() == "done");
  }
  CHECK(f.overs.empty());
  CHECK(f.end_is_kept());
  // It is acknowledged once both have heard it; one that is gone cannot, in two seconds.
  ends[0].answer<fbs::Ack>();
  CHECK_FALSE(f.coordinator.answer_of<fbs::Ack>(told));
  f.others[2].die();
  f.pass(3s);
  CHECK(f.coordinator.answer_of<fbs::Ack>(told));
  f.others[2] = f.at("three again", '3');
  f.hear(2);  // one that comes back hears it, too
  CHECK(f.wanted<fbs::HeadEnds>(f.others[2])->reason()->str() == "done");
}

TEST_CASE("ELC-3: the end of the job is passed on once, whoever tells of it again") {
  scripted_electorate f({.acting = 5});
  f.hear(1);
  const auto told = f.end_job(f.coordinator);
  f.wanted<fbs::HeadEnds>(f.others[1]).answer<fbs::Ack>();
  CHECK(f.coordinator.answer_of<fbs::Ack>(told));
  const auto again = f.end_job(f.others[1]);  // one that was outvoted and does not know it yet
  CHECK(f.others[1].answer_of<fbs::Ack>(again));
  CHECK(f.others[1].take_all<fbs::HeadEnds>().empty());
}

TEST_CASE("ELC-3: who does not say that it has heard of the end is waited for a while") {
  scripted_electorate f({.acting = 5});
  CHECK(f.coordinator.answer_of<fbs::Ack>(f.end_job(f.coordinator)));  // nobody is within reach
  scripted_electorate silent({.acting = 5});
  silent.hear(1);
  const auto told = silent.end_job(silent.coordinator);
  silent.pass(1900ms);
  CHECK_FALSE(silent.coordinator.answer_of<fbs::Ack>(told));
  silent.pass(200ms);
  CHECK(silent.coordinator.answer_of<fbs::Ack>(told));
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
