// The medic between scripted partners: it examines when asked, and exchanges bytes with a node.
#include "actors/health/medic.hpp"

#include <doctest/doctest.h>

#include "actors/base/defaults.hpp"
#include "actors/cluster/coordinator.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::health;
using troupe::test::partner;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t medic_epoch = 3;

struct asked_medic : troupe::test::actor_fixture {
  partner coordinator = make_partner("coordinator"), other = make_partner("node/b"),
          person = make_partner("person");
  int examined = 0;
  bool deep = false;
  medic_actor target;

  asked_medic() : actor_fixture(medic_epoch) {
    medic_options o;
    o.node = "a";
    o.epoch = medic_epoch;
    o.coordinator = coordinator.as<coordinator_actor>();
    o.examine = [this](const fbs::RunCheckupT& asked, std::stop_token) {
      ++examined;
      deep = asked.deep;
      fbs::CheckupReportT r;
      r.checks.push_back(std::make_unique<fbs::CheckResultT>());
      r.checks.back()->verdict = fbs::CheckVerdict::bad;
      return r;
    };
    target = spawn(medic, o);
  }
  uint64_t pair_with(const char* peer, uint32_t exchanges) {
    return person.ask(target, make_msg<fbs::TestPair>({}, [&](auto& t) {
                        t.peer = peer;
                        t.exchanges = exchanges;
                      }));
  }
  void find_other() {
    coordinator.take<fbs::FindNode>().answer<fbs::Ack>([](auto&) {}, other.self());
  }
  /// Sends back what came; every `nth` one with another byte. How many came.
  int echo(int nth = 0) {
    int count = 0;
    for (;;) {
      const auto probes = other.take_all<fbs::PairProbe>();
      if (probes.empty()) return count;
      for (const auto& p : probes) {
        ++count;
        p.answer<fbs::PairEcho>([&](auto& e) {
          e.bytes.assign(p->bytes()->begin(), p->bytes()->end());
          CHECK(e.bytes.size() <= pair_bytes);
          if (nth > 0 && count % nth == 0) e.bytes.back() ^= 1;
        });
      }
    }
  }
};

}  // namespace

TEST_CASE("MED-2: a medic examines when it is asked to, and says whose machine it was") {
  asked_medic f;
  CHECK(f.examined == 0);
  const auto n = f.person.ask(f.target, make_msg<fbs::RunCheckup>({}, [](auto& m) {
                                m.deep = true;
                              }));
  const auto report = f.person.answer_of<fbs::CheckupReport>(n);
  REQUIRE(report);
  CHECK(f.examined == 1);
  CHECK(f.deep);
  CHECK(report->unpack().node == "a");
}

TEST_CASE("medic: bytes that come back are compared, and wrong ones counted") {
  asked_medic f;
  auto n = f.pair_with("b", 4);
  f.find_other();
  CHECK(f.echo() == 24);
  auto report = f.person.answer_of<fbs::PairReport>(n);
  REQUIRE(report);
  CHECK(report->unpack().peer == "b");
  CHECK(report->unpack().wrong == 0);
  n = f.pair_with("b", 4);
  f.find_other();
  CHECK(f.echo(8) == 24);
  report = f.person.answer_of<fbs::PairReport>(n);
  REQUIRE(report);
  CHECK(report->unpack().wrong == 3);
}

TEST_CASE("MED-4: no more than 64 exchanges, whoever asks") {
  asked_medic f;
  f.pair_with("b", 1'000'000);
  f.find_other();
  CHECK(f.echo() == 20 + 64);
}

TEST_CASE("MED-4: an exchange ends with its budget, and what came back by then is the report") {
  asked_medic f;
  const auto n = f.pair_with("b", 8);
  f.find_other();
  for (int i = 0; i < 22; ++i) {
    const auto probe = f.other.take<fbs::PairProbe>();
    if (i >= 20) f.pass(1s);
    probe.answer<fbs::PairEcho>(
        [&](auto& e) { e.bytes.assign(probe->bytes()->begin(), probe->bytes()->end()); });
  }
  CHECK(f.other.take_all<fbs::PairProbe>().size() == 1);
  f.pass(2s - 1ms);
  CHECK(f.person.answer_of<fbs::PairReport>(n).error().code == errc::timeout);
  f.pass(1ms);
  const auto report = f.person.answer_of<fbs::PairReport>(n);
  REQUIRE(report);
  CHECK(report->unpack().wrong == 0);
  CHECK(report->unpack().bytes_per_s == 2.0 * 2 * pair_bytes / 4);
  f.pass(60s);
  CHECK(f.other.idle());  // nobody is asked any more
}

TEST_CASE("MED-4: a second pair is refused while one is under way, and not after it") {
  asked_medic f;
  auto n = f.pair_with("b", 1);
  f.find_other();
  const auto second = f.person.answer_of<fbs::PairReport>(f.pair_with("c", 1));
  CHECK(is_error(second.error(), exchange_under_way, "b"));
  f.pass(defaults::pair_budget);
  CHECK(is_error(f.person.answer_of<fbs::PairReport>(n).error(), nothing_came_back, "b"));
  n = f.pair_with("b", 1);
  f.find_other();
  f.other.take_all<fbs::PairProbe>();  // the one that nobody answered
  f.pass(defaults::pair_budget);
  CHECK(is_error(f.person.answer_of<fbs::PairReport>(n).error(), nothing_came_back, "b"));
}

TEST_CASE("MED-4: an exchange into which an examination falls is given up, and told so once") {
  asked_medic f;
  for (const bool found : {false, true}) {
    CAPTURE(found);
    const auto n = f.pair_with("b", 1);
    if (found) f.find_other();
    f.person.ask(f.target, make_msg<fbs::RunCheckup>({}, [](auto&) {}));
    const auto r = f.person.answer_of<fbs::PairReport>(n);
    CHECK(is_error(r.error(), exchange_interrupted, "a"));
    if (!found) f.find_other();
    f.echo();
    f.pass(10s);
    CHECK(is_error(f.person.answer_of<fbs::PairReport>(n).error(), exchange_interrupted, "a"));
  }
}

TEST_CASE("MED-5: what waited longer than its asker is not done") {
  asked_medic f;
  f.pass(200s);
  const auto ask = [&](std::chrono::nanoseconds ago, bool deep) {
    message_context before;
    before.now_ns = f.now_ns() - ago.count();
    const auto n =
        f.person.ask(f.target, make_msg<fbs::RunCheckup>(before, [&](auto& m) { m.deep = deep; }));
    return f.person.answer_of<fbs::CheckupReport>(n);
  };
  CHECK(ask(15s, false));
  CHECK(is_error(ask(16s, false).error(), nobody_waits));
  CHECK(ask(90s, true));
  CHECK(is_error(ask(91s, true).error(), nobody_waits));
  CHECK(f.examined == 2);
  message_context before;
  before.now_ns = f.now_ns() - std::chrono::nanoseconds(6s).count();
  const auto n = f.person.ask(f.target, make_msg<fbs::TestPair>(before, [](auto& t) {
                                t.peer = "b";
                                t.exchanges = 1;
                              }));
  CHECK(is_error(f.person.answer_of<fbs::PairReport>(n).error(), nobody_waits));
  CHECK(f.coordinator.idle());
}

TEST_CASE("medic: a node that is not there, or is silent, is said") {
  asked_medic f;
  auto n = f.pair_with("c", 1);
  f.coordinator.take<fbs::FindNode>().refuse(cluster::node_not_here("c"));
  auto r = f.person.answer_of<fbs::PairReport>(n);
  CHECK(is_error(r.error(), cluster::node_not_here, "c"));
  r = f.person.answer_of<fbs::PairReport>(f.pair_with("a", 1));
  CHECK(is_error(r.error(), same_node, "a"));
  n = f.pair_with("b", 1);
  f.find_other();
  f.pass(std::chrono::seconds(5));  // its contract's time
  CHECK(f.person.answer_of<fbs::PairReport>(n).error().code == errc::timeout);
}
