// The traced base on a real actor system: every handled message is one record with the right ends,
// errors stand in the stats, deaths are told.
#include "actors/base/traced.hpp"

#include <future>
#include <map>

#include <doctest/doctest.h>
#include <caf/all.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

#include "actors/base/ask.hpp"
#include "messages/rejection.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/patience.hpp"

using namespace troupe;

namespace {

using echo_actor = component_actor::extend<ask<fbs::Pause, fbs::Ack>, tell<fbs::StopTraining>>;
struct echo_state {
  static inline const char* name = "echo";
};

/// Agrees to a pause with a reason, refuses one without, finds a person's error in one; dies of
/// StopTraining.
echo_actor::behavior_type echo(traced_pointer<echo_actor, echo_state> self) {
  guard_mailbox(self);
  introduce(self, "echo/1");
  publish(self, "ready");
  return {status_handler(self),
          [self](const msg<fbs::Pause>& m) -> caf::result<msg<fbs::Ack>> {
            if (!m->reason()) return to_caf({errc::unavailable, "why?"});
            if (m->reason()->str() == "looc") return to_caf({errc::usage, "looc: look?"});
            return make_msg<fbs::Ack>(context_of(*self, m.header()));
          },
          [self](const msg<fbs::StopTraining>&) {
            self->quit(to_caf({errc::bug, "it was too much"}));
          }};
}

struct fixture {
  runtime_config config;
  std::unique_ptr<caf::actor_system> system;
  echo_actor target;

  fixture() {
    system = std::make_unique<caf::actor_system>(config);
    target = system->spawn(echo);
  }
  ~fixture() { caf::anon_send_exit(target, caf::exit_reason::kill); }

  result<msg<fbs::Ack>> pause(const message_context& c, bool reason) {
    return pause_for(c, reason ? "because" : "");
  }
  result<msg<fbs::Ack>> pause_for(const message_context& c, const std::string& reason) {
    caf::scoped_actor self(*system);
    result<msg<fbs::Ack>> out = error{errc::timeout, "no answer"};
    self->request(target, std::chrono::minutes(5),
                  make_msg<fbs::Pause>(c, [&](auto& p) { p.reason = reason; }))
        .receive([&](const msg<fbs::Ack>& a) { out = a; },
                 [&](const caf::error& e) { out = from_caf(e); });
    return out;
  }
};

std::shared_ptr<actor_stats> stats_of(const fixture& f, const char* path) {
  auto stats = f.config.own->registry.find(path);
  REQUIRE(stats);
  return stats;
}

}  // namespace

TEST_CASE("TRC-1: a handled message is one record that knows its causes") {
  fixture f;
  REQUIRE(f.pause({}, true));
  record_reader reader(f.config.own->records, true);
  reader.read(1);
  message_context c;
  c.span = next_span();
  c.trace_low = c.span;
  c.parent = 77;
  c.sender = 88;
  auto answer = f.pause(c, true);
  REQUIRE(answer);
  CHECK(answer->header().parent == c.span);  // the answer hangs under the question
  CHECK(answer->header().trace_low == c.span);
  CHECK(answer->header().sender == stats_of(f, "echo/1")->key());
  // The answer may be here before the record of the handler that made it.
  std::vector<trace_record> mine;
  troupe::test::wait_until([&] {
    for (const auto& r : reader.read(100'000))
      if (r.span == c.span) mine.push_back(r);
    return !mine.empty();
  });
  REQUIRE(mine.size() == 1);
  CHECK(mine[0].kind == record_kind::handled);
  CHECK(mine[0].type == message_traits<fbs::Pause>::id);
  CHECK(mine[0].parent == 77);
  CHECK(mine[0].sender == 88);
  CHECK(mine[0].actor == stats_of(f, "echo/1")->number());
  CHECK(mine[0].sent == 1);
  CHECK((mine[0].flags & record_flag::request) != 0);
  CHECK(mine[0].handling_s >= 0);
}

TEST_CASE("TRC-2: waiting is time on the way and time in the mailbox") {
  fixture f;
  REQUIRE(f.pause({}, true));
  record_reader reader(f.config.own->records, true);
  reader.read(1);
  // Both were sent a minute ago. One was made here, so it has lain in the mailbox; the other has
  // just come through the network.
  message_context c;
  c.now_ns = fast_now_ns() - 60'000'000'000;
  c.span = next_span();
  const auto local = make_msg<fbs::Pause>(c, [](auto& p) { p.reason = "here"; });
  c.span = next_span();
  const auto sent = make_msg<fbs::Pause>(c, [](auto& p) { p.reason = "there"; });
  std::vector<char> wire;
  caf::binary_serializer sink(*f.system, wire);
  REQUIRE_FALSE(sink(sent));
  caf::binary_deserializer source(*f.system, wire.data(), wire.size());
  msg<fbs::Pause> remote;
  REQUIRE_FALSE(source(remote));
  for (const auto& m : {local, remote}) caf::anon_send(f.target, m);
  std::map<uint64_t, trace_record> seen;
  troupe::test::wait_until([&] {
    for (const auto& r : reader.read(100'000))
      if (r.span == local.header().span || r.span == remote.header().span) seen[r.span] = r;
    return seen.size() == 2;
  });
  const auto& at_home = seen[local.header().span];
  CHECK(at_home.sent_ns == c.now_ns);
  CHECK(at_home.waiting_s() >= 60);
  CHECK(at_home.mailbox_s == doctest::Approx(at_home.waiting_s()));
  const auto& travelled = seen[remote.header().span];
  CHECK(travelled.waiting_s() >= 60);
  CHECK(travelled.mailbox_s < 59);
  CHECK(travelled.mailbox_s >= 0);
}

TEST_CASE("an actor's refusal stands in its stats, but a person's error does not") {
  fixture f;
  CHECK(f.pause_for({}, "looc").error().code == errc::usage);
  CHECK(stats_of(f, "echo/1")->view().failed == 0);
  CHECK_FALSE(f.pause({}, false));
  const auto v = stats_of(f, "echo/1")->view();
  CHECK(v.last_error == "why?");
  CHECK(v.failed >= 1);
  CHECK(v.state == "ready");
}

TEST_CASE("the death of an actor by an error is told, an orderly end is not") {
  std::promise<std::string> told;
  const auto tell = [&](const std::string& path, const std::string& why) {
    told.set_value(path + ": " + why);
  };
  {
    fixture orderly;
    orderly.config.own->registry.set_death_handler(tell);
    caf::anon_send_exit(orderly.target, caf::exit_reason::user_shutdown);
  }
  fixture f;
  f.config.own->registry.set_death_handler(tell);
  caf::anon_send(f.target, make_msg<fbs::StopTraining>());
  CHECK(told.get_future().get() == "echo/1: it was too much");
  f.config.own->registry.set_death_handler({});
}

TEST_CASE("a tap gets the message itself, by reference") {
  fixture f;
  REQUIRE(f.pause({}, true));  // it has introduced itself
  const auto number = stats_of(f, "echo/1")->number();
  f.config.own->messages.open([number](uint32_t actor, uint16_t) { return actor == number; });
  REQUIRE(f.pause({}, true));
  const auto taken = f.config.own->messages.drain();
  f.config.own->messages.open({});
  REQUIRE(taken.size() == 1);
  REQUIRE(taken[0].message.type() == message_traits<fbs::Pause>::id);
  CHECK(msg<fbs::Pause>(taken[0].message)->reason()->str() == "because");
}

// -- two systems of a process ---------------------------------------------------------------------

namespace {

using known_actor = component_actor::extend<ask<fbs::Pause, fbs::Ack>>;
struct known_state {
  static inline const char* name = "known";
};

/// Says in its answer whether who asks is whom it is told of.
known_actor::behavior_type known(traced_pointer<known_actor, known_state> self,
                                 caf::strong_actor_ptr expected) {
  introduce(self, "known/1");
  return {status_handler(self), [self, expected](const msg<fbs::Pause>& m) {
            return make_msg<fbs::Ack>(context_of(*self, m.header()), [&](auto& a) {
              a.text = self->current_sender() == expected ? "known" : "another";
            });
          }};
}

struct silent_log final : actor_log {
  void begun(fbs::SpawnRecordT) override {}
  void got(const caf::mailbox_element&, int64_t) override {}
  void said(output) override {}
  void handled(int64_t) override {}
  void ended(const std::string&, int64_t) override {}
  int64_t read_clock(int64_t ns) override { return ns; }
};

}  // namespace

TEST_CASE("ACL-2: an actor that is recorded knows who asks as one that is not") {
  for (const bool recorded : {false, true}) {
    CAPTURE(recorded);
    fixture f;
    if (recorded)
      f.config.own->logs.set_maker([](const actor_stats&) -> std::shared_ptr<actor_log> {
        return std::make_shared<silent_log>();
      });
    caf::scoped_actor self(*f.system);
    const auto target = f.system->spawn(known, caf::actor_cast<caf::strong_actor_ptr>(self));
    std::string answer;
    self->request(target, std::chrono::minutes(5), make_msg<fbs::Pause>({}, [](auto&) {}))
        .receive([&](const msg<fbs::Ack>& a) { answer = a->text()->str(); },
                 [&](const caf::error& e) { answer = from_caf(e).message; });
    CHECK(answer == "known");
    caf::anon_send_exit(target, caf::exit_reason::kill);
  }
}

TEST_CASE("RTM-1: what one actor system knows, records, taps and logs is not the other's") {
  fixture a, b;
  auto &here = *a.config.own, &there = *b.config.own;
  REQUIRE(a.pause({}, true));
  REQUIRE(b.pause({}, true));
  CHECK(here.registry.view().size() == 1);
  CHECK(there.registry.view().size() == 1);
  CHECK(stats_of(a, "echo/1")->key() != stats_of(b, "echo/1")->key());

  record_reader records(here.records, true);
  records.read(1);
  here.messages.open([](uint32_t, uint16_t) { return true; });
  size_t logs = 0;
  here.logs.set_maker([&](const actor_stats&) -> std::shared_ptr<actor_log> {
    ++logs;
    return nullptr;
  });
  const auto only_here = [&](fixture& in) {
    const auto second = in.system->spawn(echo);
    REQUIRE(in.pause({}, true));
    in.target = second;
    REQUIRE(in.pause({}, true));
    const bool recorded = !records.read(1000).empty(), tapped = !here.messages.drain().empty();
    CHECK(recorded == tapped);
    CHECK(recorded == (logs > 0));
    return recorded;
  };
  const auto first_of_b = b.target;
  CHECK_FALSE(only_here(b));
  caf::anon_send_exit(first_of_b, caf::exit_reason::kill);
  const auto first_of_a = a.target;
  CHECK(only_here(a));
  caf::anon_send_exit(first_of_a, caf::exit_reason::kill);

  REQUIRE(
      here.peers.bind(*caf::make_node_id(7, std::string(40, 'a')), {"eve", tls::role::reader}, 0));
  CHECK(here.peers.knows_guests());
  CHECK_FALSE(there.peers.knows_guests());
  here.set_clock({5, 1});
  CHECK(there.clock().bound_ns == -1);

  std::atomic<bool> told_here{false};
  std::promise<void> told_there;
  here.registry.set_death_handler([&](auto&, auto&) { told_here = true; });
  there.registry.set_death_handler([&](auto&, auto&) { told_there.set_value(); });
  caf::anon_send(b.target, make_msg<fbs::StopTraining>());
  told_there.get_future().get();
  CHECK_FALSE(told_here);
  here.registry.set_death_handler({});
  there.registry.set_death_handler({});
}

// -- epochs ---------------------------------------------------------------------------------------

namespace {

struct member_state {
  static inline const char* name = "node";
  std::vector<std::string>* said = nullptr;
};

/// A node that notes what its handlers are given, and joins epoch 5 at a tick.
node_actor::behavior_type member(traced_pointer<node_actor, member_state> self,
                                 std::vector<std::string>* said) {
  guard_mailbox(self);
  introduce(self, "node/member");
  self->state.said = said;
  return {status_handler(self),
          [self](const msg<fbs::Assign>& m)
              -> caf::result<msg<fbs::Assigned>, std::vector<caf::strong_actor_ptr>> {
            self->state.said->push_back("Assign");
            return {make_msg<fbs::Assigned>(context_of(*self, m.header())),
                    std::vector<caf::strong_actor_ptr>()};
          },
          [self](const msg<fbs::MeasureLayers>& m) {
            return make_msg<fbs::LayersMeasured>(context_of(*self, m.header()));
          },
          [self](const msg<fbs::Suspend>& m) {
            self->live_in(m.epoch());
            return make_msg<fbs::Suspended>(context_of(*self, m.header()));
          },
          [self](const msg<fbs::Shutdown>&) { self->state.said->push_back("Shutdown"); },
          [self](const msg<fbs::PairProbe>& m) {
            return make_msg<fbs::PairEcho>(context_of(*self, m.header()));
          },
          [self](const msg<fbs::OpenTestGroup>& m) {
            return make_msg<fbs::TestGroupEnd>(context_of(*self, m.header()));
          },
          [self](const msg<fbs::JoinTestGroup>& m) {
            return make_msg<fbs::TestGroupSeen>(context_of(*self, m.header()));
          },
          [self](const msg<fbs::PromiseEpoch>& m) {
            return make_msg<fbs::Promised>(context_of(*self, m.header()));
          },
          [self](const msg<fbs::HoldRecord>& m) {
            return make_msg<fbs::Promised>(context_of(*self, m.header()));
          },
          [self](caf::tick_atom) { self->live_in(5); },
          [](caf::update_atom) {}};
}

struct member_fixture : troupe::test::actor_fixture {
  std::vector<std::string> said;
  troupe::test::partner other = make_partner("other");
  node_actor target = spawn(member, &said);

  member_fixture() : actor_fixture(5) {}

  result<msg<fbs::Assigned>> assign(uint32_t epoch) {
    return other.answer_of<fbs::Assigned>(
        other.ask(target, make_msg<fbs::Assign>(context_of(epoch))));
  }
  void shut_down(uint32_t epoch) { other.tell(target, make_msg<fbs::Shutdown>(context_of(epoch))); }
  bool suspend(uint32_t epoch) {
    return bool(other.answer_of<fbs::Suspended>(
        other.ask(target, make_msg<fbs::Suspend>(context_of(epoch)))));
  }
  void join() { other.tell(target, caf::tick_atom_v); }
};

}  // namespace

TEST_CASE("TRC-6: only messages of the present epoch reach a handler, the others are counted") {
  member_fixture f;
  const auto before = counts().of(reject::stale_epoch);
  for (const uint32_t epoch : {0u, 5u}) {  // it has not joined
    const auto refused = f.assign(epoch);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::version_mismatch);
    f.shut_down(epoch);
  }
  f.join();
  for (const uint32_t epoch : {0u, 4u, 6u}) {
    const auto refused = f.assign(epoch);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::version_mismatch);
    f.shut_down(epoch);
  }
  CHECK(f.said.empty());
  CHECK(counts().of(reject::stale_epoch) == before + 10);
  REQUIRE(f.assign(5));
  f.shut_down(5);
  CHECK(f.said == std::vector<std::string>{"Assign", "Shutdown"});
  CHECK(counts().of(reject::stale_epoch) == before + 10);
  // What every actor is asked by persons is of no epoch.
  CHECK(f.other.answer_of<fbs::Status>(f.other.ask(f.target, make_msg<fbs::StatusRequest>())));
}

TEST_CASE("TRC-6: a call that may be of a newer epoch takes its receiver there, never back") {
  member_fixture f;
  CHECK_FALSE(f.suspend(6));  // it has not joined
  f.join();
  CHECK_FALSE(f.suspend(4));
  CHECK(f.suspend(5));
  CHECK(f.suspend(7));
  CHECK_FALSE(f.assign(5));
  CHECK_FALSE(f.suspend(6));
  CHECK(f.assign(7));
}

TEST_CASE("TRC-6: the rule of a call is what its contract says") {
  const auto fits = [](epoch_rule rule, uint32_t own, uint32_t epoch) {
    message_context c;
    c.epoch = epoch;
    return detail::is_of_its_epoch(rule, own, make_msg<fbs::Ack>(c));
  };
  for (const uint32_t epoch : {0u, 4u, 5u, 6u}) {
    CAPTURE(epoch);
    CHECK(fits(epoch_rule::any, 5, epoch));
    CHECK(fits(epoch_rule::present, 5, epoch) == (epoch == 5));
    CHECK(fits(epoch_rule::if_given, 5, epoch) == (epoch == 5 || epoch == 0));
    CHECK(fits(epoch_rule::not_older, 5, epoch) == (epoch >= 5));
    CHECK_FALSE(fits(epoch_rule::present, 0, epoch));
    CHECK_FALSE(fits(epoch_rule::not_older, 0, epoch));
  }
  const detail::call_rules run("Run"), stage("Stage");
  CHECK(run.epoch(message_traits<fbs::StopTraining>::id) == epoch_rule::if_given);
  CHECK(run.epoch(message_traits<fbs::NodeLost>::id) == epoch_rule::present);
  CHECK(run.epoch(message_traits<fbs::StatusRequest>::id) == epoch_rule::any);
  CHECK(stage.epoch(message_traits<fbs::RunStep>::id) == epoch_rule::present);
  CHECK(stage.epoch(message_traits<fbs::Pause>::id) == epoch_rule::any);  // refused elsewhere
}

TEST_CASE("TRC-7: of what another process asks, that goes first whose contract says so") {
  member_fixture f;
  f.join();
  const auto far = f.make_partner("far", *caf::make_node_id(7, std::string(40, 'f')));
  const auto put = [&](uint64_t number, const auto& m) {  // and nobody handles it yet
    f.target->eq_impl(caf::make_message_id(number), far.self(), nullptr, m);
  };
  put(1, make_msg<fbs::Assign>(f.context_of(5)));
  put(2, make_msg<fbs::Assign>(f.context_of(5)));
  put(3, make_msg<fbs::StatusRequest>());
  f.settle();
  CHECK(far.answered() == std::vector<uint64_t>{3, 1, 2});
}

TEST_CASE("TRC-6: an epoch never falls") {
  member_fixture f;
  f.join();
  auto* self = static_cast<std::remove_pointer_t<traced_pointer<node_actor, member_state>>*>(
      caf::actor_cast<caf::abstract_actor*>(f.target));
  self->live_in(4);
  CHECK(self->epoch() == 5);
  self->live_in(7);
  CHECK(self->epoch() == 7);
}
