// What a person tells the cluster by the gateway: to whom it is passed on, what is refused, what is
// answered, and what the audit log says by then.
#include "actors/control/gateway.hpp"
#include "actors/control/observer.hpp"

#include <fmt/format.h>

#include "tests/actors/control/scripted_gateway.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using namespace troupe::test;
using nlohmann::json;

namespace {

msg<fbs::SetValue> a_setting(const scripted_gateway& f) {
  return f.make<fbs::SetValue>([](auto& v) {
    v.key = "optimizer.lr";
    v.value = "0.1";
  });
}

/// What an observer says of one actor that took the message.
void taken(const told<fbs::CallActor>& call, const std::string& node) {
  call.answer<fbs::CallAnswers>([&](fbs::CallAnswersT& c) {
    c.answers.push_back(std::make_unique<fbs::CallAnswerT>());
    c.answers.back()->node = node;
    c.answers.back()->actor = "run";
  });
}

msg<fbs::KillActor> a_kill(const scripted_gateway& f, const std::string& node = "") {
  return f.make<fbs::KillActor>([&](auto& k) {
    k.actor = "worker/1";
    k.node = node;
    k.who = "alice";
  });
}

msg<fbs::DrainNode> a_drain(const scripted_gateway& f) {
  return f.make<fbs::DrainNode>([](auto& d) { d.node = "b"; });
}

}  // namespace

// -- giving actors a message ----------------------------------------------------------------------

TEST_CASE("GTW-2: a command is in the log before it is passed on, its result before its answer") {
  scripted_gateway f;
  f.meet_all();
  uint64_t asked = 0;
  int lines = 0;
  *f.at_line = [&] {
    if (++lines == 1) CHECK((f.head.idle() && f.a.idle()));
    if (lines == 2) CHECK(f.refused<fbs::CallAnswers>(asked) == errc::timeout);
  };
  asked = f.person.ask(f.target, f.carrying(a_setting(f), "head"));
  auto all = f.lines();
  REQUIRE(all.size() == 1);
  CHECK(all[0]["command"] == "SetValue");
  CHECK(all[0]["target"] == "run");
  CHECK(all[0]["result"] == "asked");
  CHECK(all[0]["time"] == "now");
  CHECK(json::parse(all[0]["message"].get<std::string>())["value"] == "0.1");
  taken(only<fbs::CallActor>(f.head), "head");
  CHECK(lines == 2);
  const auto answer = f.person.answer_of<fbs::CallAnswers>(asked);
  REQUIRE(answer);
  CHECK(answer->unpack().answers.size() == 1);
  all = f.lines();
  REQUIRE(all.size() == 1);
  CHECK(all[0]["result"] == "done");
  CHECK(f.a.idle());
}

TEST_CASE("GTW-8: a setting that an actor has taken is told, with who set it, and no other") {
  scripted_gateway f;
  f.meet_all();
  const auto set = [&](auto fill) {
    const auto asked = f.person.ask(f.target, f.carrying(a_setting(f), "head"));
    only<fbs::CallActor>(f.head).answer<fbs::CallAnswers>([&](fbs::CallAnswersT& c) {
      c.answers.push_back(std::make_unique<fbs::CallAnswerT>());
      fill(*c.answers.back());
    });
    REQUIRE(f.person.answer_of<fbs::CallAnswers>(asked));
  };
  set([](auto& a) { a.failure = std::make_unique<fbs::FailureT>(); });
  CHECK(f.settings->empty());
  set([&](auto& a) {
    a.message = encode(f.make<fbs::Ack>([](auto& m) {
      m.text = "optimizer.lr = 0.1, as it shall be from step 8 on";
      m.first_step = 7;
    }));
  });
  REQUIRE(f.settings->size() == 1);
  CHECK(f.settings->front().key == "optimizer.lr");
  CHECK(f.settings->front().value == "0.1");
  CHECK(f.settings->front().who == "the cluster");  // ADT-1
  CHECK(f.settings->front().first_step == 7);
  const auto asked = f.person.ask(f.target, f.carrying(f.make<fbs::Pause>([](auto&) {}), "head"));
  taken(only<fbs::CallActor>(f.head), "head");
  REQUIRE(f.person.answer_of<fbs::CallAnswers>(asked));
  CHECK(f.settings->size() == 1);
}

TEST_CASE("gateway: who says something is his certificate's name, and what he claims is a claim") {
  scripted_gateway f;
  f.meet_all();
  const far_person bob(f, 1, "bob", tls::role::operator_);
  const auto him = f.make_partner("bob", bob.process);
  him.ask(f.target, f.carrying(a_setting(f), "head"));
  f.person.ask(f.target, f.carrying(a_setting(f), "head"));
  const auto stranger = f.make_partner("unknown", *caf::make_node_id(9, std::string(40, 'e')));
  stranger.ask(f.target, f.carrying(a_setting(f), "head"));
  const auto all = f.lines();
  REQUIRE(all.size() == 3);
  CHECK(all[0]["who"] == "bob");
  CHECK(all[0]["role"] == "operator");
  CHECK(all[0]["claims"] == "alice");
  CHECK(all[1]["who"] == "the cluster");
  CHECK(all[1]["claims"] == "alice");
  CHECK(all[2]["who"] == "unknown");
}

TEST_CASE("gateway: a question is passed on and not audited") {
  scripted_gateway f;
  f.meet_all();
  const auto asked =
      f.person.ask(f.target, f.carrying(f.make<fbs::StatusRequest>([](auto&) {}), "a"));
  const auto call = only<fbs::CallActor>(f.a);
  CHECK(call->actor()->str() == "run");
  taken(call, "a");
  CHECK(f.person.answer_of<fbs::CallAnswers>(asked));
  CHECK(f.lines().empty());
}

TEST_CASE("GTW-5: what only nodes say to each other is refused, and that it was asked is noted") {
  scripted_gateway f;
  f.meet_all();
  const auto inner = f.carrying(f.make<fbs::Pause>([](auto&) {}));
  for (const auto& m : {f.carrying(f.make<fbs::ExportModel>([](auto&) {})), f.carrying(inner)}) {
    const auto asked = f.person.ask(f.target, m);
    CHECK(f.refused<fbs::CallAnswers>(asked) == errc::permission);
  }
  CHECK((f.head.idle() && f.a.idle() && f.b.idle()));
  const auto all = f.lines();
  REQUIRE(all.size() == 2);
  CHECK(all[0]["command"] == "ExportModel");
  CHECK(all[0]["result"].get<std::string>().find("refused: ExportModel is what") == 0);
  CHECK(all[1]["command"] == "CallActor");
}

TEST_CASE("gateway: what the cluster decides about a fault stands in the audit log") {
  scripted_gateway f;
  f.meet_all();
  f.head.tell(f.target, f.make<fbs::IncidentReport>([](auto& r) {
    r.incident = std::make_unique<fbs::IncidentT>();
    r.incident->finding = "dead_process";
    r.incident->node = "b";
    r.incident->what = "node b was killed";
    r.incident->rule = 3;
    r.incident->action = "hold";
    r.incident->times_left = 1;
  }));
  f.head.tell(f.target, f.make<fbs::IncidentReport>([](auto&) {}));
  const auto all = f.lines();
  REQUIRE(all.size() == 1);
  CHECK(all[0]["who"] == "the cluster");
  CHECK(all[0]["command"] == "Recover");
  CHECK(all[0]["target"] == "b");
  const auto decided = json::parse(all[0]["message"].get<std::string>())["incident"];
  CHECK(decided["rule"] == 3);
  CHECK(decided["times_left"] == 1);
  CHECK(decided["what"] == "node b was killed");
}

TEST_CASE("gateway: what cannot be read is refused and goes nowhere") {
  scripted_gateway f;
  f.meet_all();
  const auto whole = encode(f.make<fbs::Pause>([](auto&) {}));
  auto cut = whole, torn = whole, longer = whole;
  cut.resize(cut.size() / 2);
  torn[70] ^= 1;
  longer.push_back(0);
  for (const auto& bytes : {std::vector<uint8_t>{}, cut, torn, longer}) {
    const auto asked = f.person.ask(f.target, f.make<fbs::CallActor>([&](auto& c) {
      c.actor = "run";
      c.message = bytes;
    }));
    CHECK(f.refused<fbs::CallAnswers>(asked) == errc::bad_data);
  }
  const auto none = f.person.ask(f.target, build_msg<fbs::CallActor>(f.context(), [](auto& to) {
                                   return fbs::CreateCallActor(to);
                                 }));
  CHECK(f.refused<fbs::CallAnswers>(none) == errc::bad_data);
  CHECK((f.head.idle() && f.a.idle() && f.b.idle()));
  CHECK(f.lines().empty());
}

TEST_CASE("gateway: of a call each node answers, and one that is silent or gone is named") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.carrying(a_setting(f), "", 700));
  taken(only<fbs::CallActor>(f.head), "head");
  only<fbs::CallActor>(f.b);
  f.a.die();
  f.pass(1'200ms - 1ns);  // what each may take, and half a second
  CHECK(f.refused<fbs::CallAnswers>(asked) == errc::timeout);
  f.pass(1ns);
  const auto answer = f.person.answer_of<fbs::CallAnswers>(asked);
  REQUIRE(answer);
  const auto all = answer->unpack();
  REQUIRE(all.answers.size() == 3);
  CHECK_FALSE(all.answers[0]->failure);
  CHECK(all.answers[1]->node == "a");
  REQUIRE(all.answers[1]->failure);
  CHECK(all.answers[1]->failure->code == static_cast<uint8_t>(errc::unavailable));
  CHECK(all.answers[2]->node == "b");
  REQUIRE(all.answers[2]->failure);
  CHECK(is_error(error_of(*all.answers[2]->failure), no_answer, "b"));
  CHECK(f.lines()[0]["result"] == all.answers[1]->failure->message);  // of no actor, so none named
}

TEST_CASE(
    "gateway: a call takes 5.5 s where it does not say, and as long as it says however long") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.carrying(a_setting(f), "a"));
  const auto longer = f.person.ask(f.target, f.carrying(a_setting(f), "a", UINT32_MAX));
  f.pass(5'500ms - 1ns);
  CHECK(f.refused<fbs::CallAnswers>(asked) == errc::timeout);
  f.pass(1ns);
  CHECK(f.person.answer_of<fbs::CallAnswers>(asked));
  f.pass(10s);
  CHECK(f.refused<fbs::CallAnswers>(longer) == errc::timeout);
}

TEST_CASE("gateway: a call that reaches nobody is answered at once, by nothing") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.carrying(a_setting(f), "nowhere"));
  const auto answer = f.person.answer_of<fbs::CallAnswers>(asked);
  REQUIRE(answer);
  CHECK(answer->unpack().answers.empty());
  CHECK(f.lines()[0]["result"] == "no such actor");
}

TEST_CASE("gateway: answers too large for one message are an error, and the result is noted") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, f.carrying(a_setting(f)));
  for (const auto& p : {f.head, f.a, f.b})
    only<fbs::CallActor>(p).answer<fbs::CallAnswers>([](fbs::CallAnswersT& c) {
      c.answers.push_back(std::make_unique<fbs::CallAnswerT>());
      c.answers.back()->message.resize(400'000);
    });
  CHECK(f.refused<fbs::CallAnswers>(asked) == errc::bad_data);
  CHECK(f.lines()[0]["result"] == "done");
}

// -- orders ---------------------------------------------------------------------------------------

TEST_CASE("gateway: an order reaches what fits, and who has no such actor has not failed") {
  scripted_gateway f;
  f.meet_all();
  const auto asked = f.person.ask(f.target, a_kill(f));
  CHECK(f.lines()[0]["result"] == "asked");
  CHECK(f.lines()[0]["command"] == "KillActor");
  CHECK(f.lines()[0]["target"] == "worker/1");
  only<fbs::KillActor>(f.head).refuse({errc::not_found, "there is no actor worker/1 here"});
  only<fbs::KillActor>(f.a).answer<fbs::Ack>([](auto& a) { a.text = "it ends"; });
  const error full(errc::io, "no room", "make some", "no_room");
  only<fbs::KillActor>(f.b).refuse(full);
  const auto answer = f.person.answer_of<fbs::CallAnswers>(asked);
  REQUIRE(answer);
  const auto all = answer->unpack();
  REQUIRE(all.answers.size() == 2);
  CHECK(all.answers[0]->node == "a");
  CHECK(all.answers[0]->actor == "observer/a");
  const auto ack = decode(all.answers[0]->message);
  REQUIRE(ack);
  CHECK(cast<fbs::Ack>(*ack)->text()->str() == "it ends");
  REQUIRE(all.answers[1]->failure);
  CHECK(error_of(*all.answers[1]->failure) == full);
  CHECK(f.lines()[0]["result"] == "observer/b: " + full.message);
}

TEST_CASE("GTW-7: the coordinator hears whose process a person's kill ends, and of whom") {
  scripted_gateway f;
  f.meet_all();
  const far_person alice(f, 7, "alice", tls::role::operator_);
  const auto she = f.make_partner("alice", alice.process);
  she.ask(f.target, a_kill(f));
  only<fbs::KillActor>(f.head).refuse({errc::not_found, "there is no actor worker/1 here"});
  only<fbs::KillActor>(f.b).refuse({errc::io, "no room"});
  CHECK(f.coordinator.idle());
  only<fbs::KillActor>(f.a).answer<fbs::Ack>();
  const auto told = only<fbs::Leave>(f.coordinator).m.unpack();
  CHECK(told.node == "a");
  CHECK(told.pid == 1002);
  CHECK(told.finding == "dead_process");
  CHECK(told.reason == "ends: worker/1 was killed by alice at the console");
  // What a node does without ends no process.
  she.ask(f.target, f.make<fbs::KillActor>([](auto& k) { k.actor = "vitals/a"; }));
  only<fbs::KillActor>(f.a).answer<fbs::Ack>();
  CHECK(f.coordinator.idle());
}

TEST_CASE("gateway: an order waits 1.5 s for who is silent, a black box 20 s") {
  scripted_gateway f;
  f.meet_all();
  const auto kill = f.person.ask(f.target, a_kill(f, "b"));
  const auto level = f.person.ask(f.target, f.make<fbs::SetLogLevel>([](auto& l) {
    l.level = "debug";
    l.node = "b";
  }));
  const auto box = f.person.ask(f.target, f.make<fbs::DumpBlackBox>([](auto& d) {
    d.reason = "slow";
    d.node = "b";
  }));
  f.pass(1'500ms - 1ns);
  CHECK(f.refused<fbs::CallAnswers>(kill) == errc::timeout);
  CHECK(f.refused<fbs::CallAnswers>(level) == errc::timeout);
  f.pass(1ns);
  for (const auto asked : {kill, level}) {
    const auto answer = f.person.answer_of<fbs::CallAnswers>(asked);
    REQUIRE(answer);
    CHECK(answer->unpack().answers[0]->failure->code == static_cast<uint8_t>(errc::timeout));
  }
  f.pass(18'500ms - 1ns);
  CHECK(f.refused<fbs::CallAnswers>(box) == errc::timeout);
  f.pass(1ns);
  CHECK(f.person.answer_of<fbs::CallAnswers>(box));
  const auto all = f.lines();
  REQUIRE(all.size() == 3);
  CHECK(all[1]["command"] == "SetLogLevel");
  CHECK(all[1]["target"] == "debug");
  CHECK(all[2]["command"] == "DumpBlackBox");
  CHECK(all[2]["target"] == "b");
}

TEST_CASE(
    "gateway: failures that are too large for one message are an error, and the gateway lives on") {
  scripted_gateway f;
  std::vector<partner> many;
  for (uint32_t i = 0; i < 300; ++i) {
    many.push_back(f.make_partner("n"));
    f.meet(10 + i, fmt::format("n{}", i), many.back());
  }
  const auto asked = f.person.ask(
      f.target, f.make<fbs::SetLogLevel>([](auto& l) { l.level = std::string(5'000, 'x'); }));
  for (const auto& p : many)
    only<fbs::SetLogLevel>(p).refuse({errc::usage, std::string(5'000, 'x') + " is no log level"});
  CHECK(f.refused<fbs::CallAnswers>(asked) == errc::bad_data);
  CHECK(f.lives(f.target));
  CHECK(f.lines().size() == 1);
}

// -- drain ----------------------------------------------------------------------------------------

TEST_CASE("gateway: a drain is the coordinator's, who is known by the head's process") {
  scripted_gateway f;
  CHECK(f.refused<fbs::Ack>(f.person.ask(f.target, a_drain(f))) == errc::unavailable);
  f.meet(2, "a", f.a);
  CHECK(f.refused<fbs::Ack>(f.person.ask(f.target, a_drain(f))) == errc::unavailable);
  CHECK(f.lines().empty());
  f.meet(1, "head", f.head);
  const auto asked = f.person.ask(f.target, a_drain(f));
  CHECK(f.lines()[0]["result"] == "asked");
  CHECK(f.lines()[0]["target"] == "b");
  only<fbs::DrainNode>(f.coordinator).answer<fbs::Ack>([](auto& a) { a.text = "the run ends"; });
  const auto answer = f.person.answer_of<fbs::Ack>(asked);
  REQUIRE(answer);
  CHECK((*answer)->text()->str() == "the run ends");
  CHECK(f.lines()[0]["result"] == "the run ends");
}

TEST_CASE("gateway: a coordinator that refuses a drain, is silent for 1.5 s, or is gone") {
  scripted_gateway f;
  f.meet_all();
  const auto refused = f.person.ask(f.target, a_drain(f));
  only<fbs::DrainNode>(f.coordinator).refuse({errc::not_found, "there is no node b"});
  CHECK(f.refused<fbs::Ack>(refused) == errc::not_found);
  const auto silent = f.person.ask(f.target, a_drain(f));
  f.pass(1'500ms - 1ns);
  CHECK(f.lines()[1]["result"] == "asked");
  f.pass(1ns);
  CHECK(f.refused<fbs::Ack>(silent) == errc::timeout);
  f.coordinator.die();
  const auto gone = f.person.ask(f.target, a_drain(f));
  CHECK(f.refused<fbs::Ack>(gone) == errc::unavailable);
  const auto all = f.lines();
  REQUIRE(all.size() == 3);
  CHECK(all[0]["result"] == "there is no node b");
  CHECK(all[1]["result"].get<std::string>().find("no answer") == 0);
  CHECK(all[2]["result"] != "asked");
}

// -- the audit log --------------------------------------------------------------------------------

TEST_CASE("GTW-6: with a full disk commands are refused, but pause, stop and drain are done") {
  scripted_gateway f("/dev/full");
  f.meet_all();
  const auto full = [&](uint64_t asked) {
    const auto answer = f.person.answer_of<fbs::CallAnswers>(asked);
    REQUIRE(!answer);
    CHECK(answer.error().code == errc::io);
    CHECK(is_error(answer, trace::audit_unwritten));
    CHECK_FALSE(answer.error().hint.empty());
  };
  full(f.person.ask(f.target, f.carrying(a_setting(f))));
  full(f.person.ask(f.target, f.carrying(f.make<fbs::Resume>([](auto&) {}))));
  full(f.person.ask(f.target, a_kill(f)));
  full(f.person.ask(f.target, f.make<fbs::SetLogLevel>([](auto& l) { l.level = "off"; })));
  full(f.person.ask(f.target, f.make<fbs::DumpBlackBox>([](auto&) {})));
  CHECK((f.head.idle() && f.a.idle() && f.b.idle()));
  for (const auto& m : {f.carrying(f.make<fbs::Pause>([](auto&) {}), "head"),
                        f.carrying(f.make<fbs::StopTraining>([](auto&) {}), "head")}) {
    const auto asked = f.person.ask(f.target, m);
    taken(only<fbs::CallActor>(f.head), "head");
    CHECK(f.person.answer_of<fbs::CallAnswers>(asked));
  }
  const auto drained = f.person.ask(f.target, a_drain(f));
  only<fbs::DrainNode>(f.coordinator).answer<fbs::Ack>();
  CHECK(f.person.answer_of<fbs::Ack>(drained));
  const auto now = f.status();
  CHECK(now.state == "refusing");
  CHECK(now.values->gateway->audit_failures >= 8);
  CHECK(now.values->gateway->audit_log.find("No space left") != std::string::npos);
}

TEST_CASE("GTW-6: once the log can be written again commands are done, and the status says so") {
  scripted_gateway f;
  f.meet_all();
  const scratch nowhere;
  std::filesystem::rename(f.folder.path, nowhere / "moved");
  CHECK(f.refused<fbs::CallAnswers>(f.person.ask(f.target, a_kill(f))) == errc::not_found);
  CHECK(f.status().state == "refusing");
  std::filesystem::rename(nowhere / "moved", f.folder.path);
  f.person.ask(f.target, a_kill(f));
  only<fbs::KillActor>(f.a).answer<fbs::Ack>();
  CHECK(f.status().state == "open");
}

TEST_CASE(
    "GTW-4: what the gate refused stands in the log, and nobody writes it without a gateway") {
  scripted_gateway f;
  f.meet_all();
  const far_person rita(f, 2, "rita", tls::role::reader);
  const auto she = f.make_partner("rita", rita.process);
  CHECK(she.answer_of<fbs::CallAnswers>(she.ask(f.target, a_kill(f))).error().code ==
        errc::permission);
  CHECK(she.answer_of<fbs::Ack>(she.ask(f.target, a_drain(f))).error().code == errc::permission);
  she.tell(f.target, f.batch(1));
  CHECK((f.a.idle() && f.coordinator.idle()));
  auto all = f.lines();
  REQUIRE(all.size() == 3);
  CHECK(all[0]["who"] == "rita");
  CHECK(all[0]["role"] == "reader");
  CHECK(all[0]["command"] == "KillActor");
  CHECK(all[0]["target"] == "worker/1");
  CHECK(all[0]["claims"] == "alice");
  CHECK(all[0]["result"].get<std::string>().find("refused: ") == 0);
  CHECK(all[1]["command"] == "DrainNode");
  CHECK(all[2]["command"] == "TraceBatch");
  const auto look = she.ask(f.target, f.view_of("a"));  // that she may
  f.answer_looks({f.a});
  CHECK(she.answer_of<fbs::ClusterView>(look));
  const auto observer = f.spawn(trace::observer, trace::observer_options{});
  she.tell(observer, a_kill(f));
  CHECK(f.lines().size() == 4);
  caf::anon_send_exit(f.target, caf::exit_reason::kill);
  f.settle();
  she.tell(observer, a_kill(f));
  CHECK(f.lines().size() == 4);
}

TEST_CASE("gateway: without an audit log commands are done, and nothing is kept") {
  scripted_gateway f("");
  f.meet_all();
  const auto asked = f.person.ask(f.target, a_kill(f, "a"));
  only<fbs::KillActor>(f.a).answer<fbs::Ack>();
  CHECK(f.person.answer_of<fbs::CallAnswers>(asked));
}
