// The observer of a process: lists, calls, kills, levels of its log. Views and black boxes are in
// observer_views_test.cpp.
#include "actors/control/observer.hpp"

#include <unistd.h>

#include <spdlog/spdlog.h>

#include "tests/actors/control/scripted_observer.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using namespace troupe::test;

// -- lists ----------------------------------------------------------------------------------------

TEST_CASE("observer: a list says of each actor what is known without asking it") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1"), two = f.spawn(subject, "subject/2");
  f.person.tell(one, f.pause());
  f.person.ask(one, f.make<fbs::CheckpointNow>([](auto&) {}));
  f.runtime().registry.find("subject/2")->begin_wait("subject/1", "a word", 400'000);
  f.pass(1ms);  // the clock stands at 2 ms
  const auto all = f.list("subject/*");
  CHECK(all.node == "n1");
  CHECK(all.host == "host1");
  CHECK(all.pid == static_cast<uint32_t>(getpid()));
  CHECK(all.process == process_tag());
  REQUIRE(all.actors.size() == 2);
  const auto &first = *all.actors[0], &second = *all.actors[1];
  CHECK(first.path == "subject/1");
  CHECK(first.kind == "subject");
  CHECK(first.state == "ready");
  REQUIRE((first.values && first.values->node));
  CHECK(first.values->node->stages == 3);
  CHECK(first.handled == 2);
  CHECK(first.received == 2);
  CHECK(first.state_for_ns == 1'000'000);
  CHECK(first.handling.empty());
  CHECK(first.ended.empty());
  CHECK(first.key == f.runtime().registry.find("subject/1")->key());
  REQUIRE(second.waits.size() == 1);
  CHECK(second.waits[0]->whom == "subject/1");
  CHECK(second.waits[0]->what == "a word");
  CHECK(second.waits[0]->for_ns == 1'600'000);
}

TEST_CASE("observer: a list is of what fits the pattern, with the dead where they are asked for") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/living"), two = f.spawn(subject, "subject/dying");
  f.person.tell(two, f.make<fbs::StopTraining>([](auto&) {}));
  CHECK(f.list("subject/?iving").actors.size() == 1);
  CHECK(f.list("subject/dying").actors.empty());
  const auto dead = f.list("subject/dying", true);
  REQUIRE(dead.actors.size() == 1);
  CHECK(dead.actors[0]->ended.find("too much") != std::string::npos);
  CHECK(dead.actors[0]->uptime_ns >= 0);
  CHECK(f.list("observer/n1").actors.size() == 1);
}

TEST_CASE("observer: a rate is of the last half second or more, and the dead leave none behind") {
  scripted_observer f;
  auto one = f.spawn(subject, "subject/1");
  const auto rate = [&] { return f.list("subject/1").actors.at(0)->handled_per_s; };
  rate();
  for (int i = 0; i < 100; ++i) f.person.tell(one, f.pause());
  f.pass(499ms);
  const auto before = rate();
  f.pass(1ms);
  CHECK(rate() == doctest::Approx(200));
  CHECK(before != doctest::Approx(200));
  f.pass(500ms);
  CHECK(rate() == 0);
  auto* state = &static_cast<traced_pointer<observer_actor, trace::observer_state>>(
                     caf::actor_cast<caf::abstract_actor*>(f.target))
                     ->state;
  for (int i = 0; i < 100; ++i) f.person.tell(one, f.pause());
  f.person.tell(one, f.make<fbs::StopTraining>([](auto&) {}));
  f.pass(500ms);
  const auto dead = f.list("subject/1", true);
  REQUIRE_FALSE(dead.actors.empty());
  CHECK(dead.actors.back()->handled_per_s == 0);
  f.list("");
  const auto known = state->rates.size();
  for (int i = 0; i < 10; ++i) {
    const auto brief = f.spawn(subject, "subject/brief");
    f.list("subject/*");
    f.person.tell(brief, f.make<fbs::StopTraining>([](auto&) {}));
  }
  f.list("subject/*");
  CHECK(state->rates.size() <= known);
}

TEST_CASE("observer: actors that are too many for one message are refused, and it lives on") {
  scripted_observer f;
  std::vector<subject_actor> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(f.spawn(subject, "subject/" + std::to_string(i)));
    f.runtime()
        .registry.find("subject/" + std::to_string(i))
        ->publish(std::string(400'000, 'x'), 0);
  }
  const auto why =
      f.refusal_of<fbs::ActorList>(f.make<fbs::ListActors>([](auto& l) { l.actor = "subject/*"; }));
  CHECK(why.code == errc::bad_data);
  CHECK(why.hint.find("pattern") != std::string::npos);
  CHECK(f.lives(f.target));
  CHECK(f.list("subject/1").actors.size() == 1);
}

TEST_CASE("observer: its answers bear the epoch of who asks, and no epoch is refused") {
  scripted_observer f;
  for (const uint32_t epoch : {0u, observed_epoch, observed_epoch + 3}) {
    const auto asked =
        f.person.ask(f.target, make_msg<fbs::ListActors>(actor_fixture::context_of(epoch)));
    const auto answer = f.person.answer_of<fbs::ActorList>(asked);
    REQUIRE(answer);
    CHECK(answer->epoch() == epoch);
  }
}

TEST_CASE("observer: what it has no handler for is refused, and it lives on") {
  scripted_observer f;
  CHECK(f.refusal_of<fbs::Ack>(f.pause()).code == errc::bad_data);
  CHECK(f.refusal_of<fbs::Status>(f.make<fbs::StatusRequest>([](auto&) {})).code == errc::none);
}

// -- calls ----------------------------------------------------------------------------------------

TEST_CASE("observer: a call reaches every actor that fits, with the epoch and trace of who calls") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1"), two = f.spawn(subject, "subject/2");
  const auto all = f.called(f.carrying(f.pause(), "subject/*"));
  REQUIRE(all.answers.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const auto path = "subject/" + std::to_string(i + 1);
    CHECK(all.answers[i]->actor == path);
    CHECK(all.answers[i]->node == "n1");
    CHECK_FALSE(all.answers[i]->failure);
    const auto ack = decode(all.answers[i]->message);
    REQUIRE(ack);
    CHECK(ack->epoch() == observed_epoch);
    CHECK(cast<fbs::Ack>(*ack)->text()->str() == path + " please");
  }
  CHECK(f.called(f.carrying(f.pause(), "subject/2")).answers.size() == 1);
}

TEST_CASE("observer: a call reaches neither nobody's path, nor the observer itself, nor the dead") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1"), other = f.spawn(subject, "subject/2");
  f.person.tell(one, f.make<fbs::StopTraining>([](auto&) {}));
  const auto question = f.make<fbs::StatusRequest>([](auto&) {});
  for (const auto* whom : {"", "subject/1", "nobody", "observer/n1"})
    CHECK(f.called(f.carrying(question, whom)).answers.empty());
}

TEST_CASE("observer: of two actors of one path each is told, once") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/twin"), two = f.spawn(subject, "subject/twin");
  CHECK(f.called(f.carrying(f.pause(), "subject/twin")).answers.size() == 2);
  for (const auto& a : f.list("subject/twin").actors) CHECK(a->handled == 1);
}

TEST_CASE("OBS-3: an actor that is silent, refuses, dies, or has nothing to say is answered for") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1");
  const auto failure = [&](const auto& m) {
    const auto all = f.called(f.carrying(m, "subject/1"));
    REQUIRE(all.answers.size() == 1);
    CHECK(all.answers[0]->message.empty());
    return all.answers[0]->failure ? *all.answers[0]->failure : fbs::FailureT{};
  };
  const auto refused = failure(f.make<fbs::CheckpointNow>([](auto&) {}));
  CHECK(refused.code == static_cast<uint8_t>(errc::training));
  CHECK(refused.message == "no");
  CHECK(refused.hint == "later");
  CHECK(failure(f.make<fbs::ListActors>([](auto&) {})).code ==
        static_cast<uint8_t>(errc::bad_data));
  const auto silent =
      f.person.ask(f.target, f.carrying(f.make<fbs::Resume>([](auto&) {}), "subject/1", 700));
  const auto unsaid =
      f.person.ask(f.target, f.carrying(f.make<fbs::Resume>([](auto&) {}), "subject/1"));
  f.pass(700ms - 1ns);
  CHECK(f.person.answer_of<fbs::CallAnswers>(silent).error().code == errc::timeout);
  f.pass(1ns);
  const auto late = f.person.answer_of<fbs::CallAnswers>(silent);
  REQUIRE(late);
  CHECK(late->unpack().answers[0]->failure->code == static_cast<uint8_t>(errc::timeout));
  f.pass(4'300ms - 1ns);
  CHECK(!f.person.answer_of<fbs::CallAnswers>(unsaid));
  f.pass(1ns);
  CHECK(f.person.answer_of<fbs::CallAnswers>(unsaid));
  const auto waiting =
      f.person.ask(f.target, f.carrying(f.make<fbs::Resume>([](auto&) {}), "subject/1", 5'000));
  CHECK(failure(f.make<fbs::StopTraining>([](auto&) {})).message.empty());  // a tell, and it ends
  f.pass(5s);
  const auto gone = f.person.answer_of<fbs::CallAnswers>(waiting);
  REQUIRE(gone);
  CHECK(gone->unpack().answers[0]->failure);
}

TEST_CASE("OBS-3: an answer that comes late changes nothing any more") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1");
  const auto silent =
      f.person.ask(f.target, f.carrying(f.make<fbs::Resume>([](auto&) {}), "subject/1", 700));
  f.pass(700ms);
  REQUIRE(f.person.answer_of<fbs::CallAnswers>(silent));
  f.person.tell(one, f.make<fbs::StopTraining>([](auto&) {}));  // its promise is broken now
  CHECK(f.lives(f.target));
  CHECK(f.called(f.carrying(f.pause(), "nobody")).answers.empty());
}

TEST_CASE("OBS-3: an answer with a handle beside it ends the call as well") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1");
  const auto all = f.called(f.carrying(f.make<fbs::FindGateway>([](auto&) {}), "subject/1"));
  REQUIRE(all.answers.size() == 1);
  CHECK_FALSE(all.answers[0]->failure);
  const auto found = decode(all.answers[0]->message);
  REQUIRE(found);
  CHECK(found->type() == message_traits<fbs::GatewayFound>::id);
}

TEST_CASE("OBS-3: answers that are too large for one message are refused, and it lives on") {
  scripted_observer f;
  std::vector<subject_actor> all;
  for (int i = 0; i < 3; ++i) all.push_back(f.spawn(subject, "subject/" + std::to_string(i)));
  const auto large = f.make<fbs::SetValue>([](auto& v) { v.value = "400000"; });
  CHECK(f.refusal_of<fbs::CallAnswers>(f.carrying(large, "subject/*")).code == errc::bad_data);
  CHECK(f.lives(f.target));
  CHECK(f.called(f.carrying(large, "subject/1")).answers.size() == 1);
}

TEST_CASE("OBS-5: what only nodes say is given to nobody, and what cannot be read neither") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1");
  const auto inner = f.carrying(f.pause(), "subject/1");
  for (const auto& m : {f.carrying(f.make<fbs::ExportModel>([](auto&) {}), "subject/1"),
                        f.carrying(inner, "observer/n1")})
    CHECK(f.refusal_of<fbs::CallAnswers>(m).code == errc::permission);
  auto bytes = encode(f.pause());
  bytes.pop_back();
  for (const auto& wrong : {std::vector<uint8_t>{}, bytes})
    CHECK(f.refusal_of<fbs::CallAnswers>(f.make<fbs::CallActor>([&](auto& c) {
             c.actor = "subject/1";
             c.message = wrong;
           })).code == errc::bad_data);
  CHECK(f.list("subject/1").actors[0]->received == 0);
}

// -- orders ---------------------------------------------------------------------------------------

TEST_CASE("observer: a kill ends the actor of that path and no other, after a black box") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1"), two = f.spawn(subject, "subject/2");
  const auto kill = [&](const std::string& path) {
    return f.person.answer_of<fbs::Ack>(
        f.person.ask(f.target, f.make<fbs::KillActor>([&](auto& k) { k.actor = path; })));
  };
  for (const auto* nobody : {"", "subject/*", "subject/3"})
    CHECK(kill(nobody).error().code == errc::not_found);
  CHECK(f.boxes().empty());
  const auto done = kill("subject/1");
  REQUIRE(done);
  const auto text = (*done)->text()->str();
  CHECK(text.find("subject/1 of n1 is told to end; the last seconds are in ") == 0);
  CHECK_FALSE(f.lives(one));
  CHECK(f.lives(two));
  REQUIRE(f.boxes().size() == 1);  // and none of the death, which is no error
  CHECK(f.boxes()[0].find("subject-1-killed") != std::string::npos);
  CHECK(kill("subject/1").error().code == errc::not_found);
}

TEST_CASE("observer: a kill where no black box can be written is a kill") {
  for (const auto* nowhere : {"", "/dev/null/nowhere"}) {
    scripted_observer f(nowhere);
    const auto one = f.spawn(subject, "subject/1");
    const auto done = f.person.answer_of<fbs::Ack>(
        f.person.ask(f.target, f.make<fbs::KillActor>([](auto& k) { k.actor = "subject/1"; })));
    REQUIRE(done);
    CHECK((*done)->text()->str().find("is told to end; ") != std::string::npos);
    CHECK_FALSE(f.lives(one));
  }
}

TEST_CASE("observer: a level of the log is one of its words") {
  struct restore {
    spdlog::level::level_enum before = spdlog::get_level();
    ~restore() { spdlog::set_level(before); }
  } at_the_end;
  scripted_observer f;
  const auto set = [&](const std::string& level) {
    return f.refusal_of<fbs::Ack>(f.make<fbs::SetLogLevel>([&](auto& l) { l.level = level; }));
  };
  for (const auto& [word, level] :
       {std::pair("trace", spdlog::level::trace), std::pair("debug", spdlog::level::debug),
        std::pair("info", spdlog::level::info), std::pair("warn", spdlog::level::warn),
        std::pair("error", spdlog::level::err), std::pair("off", spdlog::level::off)}) {
    CHECK(set(word).code == errc::none);
    CHECK(spdlog::get_level() == level);
  }
  spdlog::set_level(spdlog::level::warn);
  for (const auto* wrong : {"", "loud", "INFO", "off "}) {
    const auto why = set(wrong);
    CHECK(why.code == errc::usage);
    CHECK(why.hint.find("trace, debug, info") != std::string::npos);
  }
  CHECK(spdlog::get_level() == spdlog::level::warn);
}
