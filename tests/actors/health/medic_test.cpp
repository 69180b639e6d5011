// The medic between scripted partners: it examines when asked, and exchanges bytes with a node.
#include "actors/health/medic.hpp"

#include <doctest/doctest.h>

#include "actors/cluster/coordinator.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::health;
using troupe::test::partner;

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
