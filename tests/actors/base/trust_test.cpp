// The book of peers: how many it remembers, and for how long; what a role lets through the gate.
#include "actors/base/trust.hpp"

#include <initializer_list>

#include <doctest/doctest.h>
#include <caf/all.hpp>

#include "actors/base/runtime.hpp"
#include "messages/actors.hpp"
#include "tests/errors.hpp"

using namespace troupe;

namespace {

caf::node_id process_of(uint32_t number) {
  return *caf::make_node_id(number, std::string(40, 'a'));
}

/// One of each kind.
struct said_by_role {
  any_msg report = make_msg<fbs::PowerReport>(), grant = make_msg<fbs::PowerGrant>(),
          tree = make_msg<fbs::ReadPowerTree>(), budget = make_msg<fbs::SetPowerBudget>(),
          look = make_msg<fbs::StatusRequest>(), step = make_msg<fbs::RunStep>();
};

}  // namespace

TEST_CASE("trust: 65,536 processes are remembered for a minute, and further ones refused (TRU-1)") {
  constexpr uint32_t most = 65'536;
  constexpr int64_t start_ns = 1'000'000'000'000, second_ns = 1'000'000'000;
  constexpr int64_t forgotten_ns = start_ns + peer_memory_ns;
  peer_book peers;
  const peer guest{"alice", tls::role::reader}, other{"bob", tls::role::reader};
  for (uint32_t i = 0; i < most; ++i) {
    REQUIRE(peers.bind(process_of(i), guest, start_ns));
    peers.release(process_of(i), start_ns + i);  // each is forgotten after the one before
  }
  CHECK_FALSE(peers.bind(process_of(0), other, forgotten_ns - 1));
  CHECK_FALSE(peers.bind(process_of(most), guest, forgotten_ns - 1));
  CHECK_FALSE(peers.bind(process_of(most), guest, forgotten_ns + most));  // it has just been looked
  CHECK(peers.bind(process_of(most), guest, forgotten_ns + second_ns));
  CHECK(peers.bind(process_of(1), other, forgotten_ns + second_ns));
  peers.release(process_of(most), forgotten_ns + second_ns);
  peers.release(process_of(1), forgotten_ns + second_ns);
}

TEST_CASE("trust: from where a process connected is known as long as who it is") {
  runtime_config config;
  caf::actor_system system(config);
  const caf::scoped_actor speaker(system);
  const auto sender = caf::actor_cast<caf::strong_actor_ptr>(speaker);
  peer_book peers;
  const peer alice{"alice", tls::role::operator_};
  CHECK(peers.place_of(sender).empty());
  REQUIRE(peers.bind(system.node(), alice, 0));
  CHECK(peers.place_of(sender).empty());
  REQUIRE(peers.bind(system.node(), alice, 0, "10.0.0.7"));
  CHECK(peers.place_of(sender) == "10.0.0.7");
  REQUIRE(peers.bind(system.node(), alice, 0));
  CHECK(peers.place_of(sender) == "10.0.0.7");
  CHECK(peers.place_of(caf::strong_actor_ptr()).empty());
}

TEST_CASE("trust: a peer of role power reports to a power budget, and sends nothing else (TRU-2)") {
  const said_by_role m;
  const peer job{"gpt-a", tls::role::power}, node{"node0", tls::role::node};
  CHECK(may_send(job, m.report));
  CHECK(may_send(node, m.report));
  for (const auto& other : {m.tree, m.budget, m.look, m.step, m.grant}) {
    const auto refused = may_send(job, other);
    CAPTURE(other.type());
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::permission);
    CHECK(mentions(refused.error(), "gpt-a"));
  }
  CHECK(mentions(may_send(job, m.look).error(), "power"));
  for (const auto as : {tls::role::operator_, tls::role::reader}) {
    const auto refused = may_send({"alice", as}, m.report);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::permission);
    CHECK(mentions(refused.error(), "PowerReport"));
    CHECK(mentions(refused.error(), "troupe key --role power"));
    CHECK(mentions(refused.error(), "cluster.tls"));
    CHECK(may_send({"alice", as}, m.tree));
  }
  CHECK(may_send({"alice", tls::role::operator_}, m.budget));
  CHECK_FALSE(may_send({"alice", tls::role::reader}, m.budget));
}

TEST_CASE("trust: a power budget answers a job with grants, and only as answers (TRU-2)") {
  const said_by_role m;
  runtime_config config;
  caf::actor_system system(config);
  const caf::scoped_actor speaker(system);
  const auto sender = caf::actor_cast<caf::strong_actor_ptr>(speaker);
  const actor_stats pacer(1, 0);
  const auto request = caf::make_message_id(7);
  const auto refused_of = [&](tls::role as, caf::message_id mid, const any_msg& what) {
    peer_book peers;
    REQUIRE(peers.bind(system.node(), {"row0", as}, 0));
    const auto element = caf::make_mailbox_element(sender, mid, {}, caf::ok_atom_v);
    return peers.refuse_at_gate(*element, &what, pacer, nullptr);
  };
  CHECK_FALSE(refused_of(tls::role::power, request.response_id(), m.grant));
  CHECK(refused_of(tls::role::power, caf::make_message_id(), m.grant));
  for (const auto& other : {m.tree, m.budget, m.look, m.step})
    CHECK(refused_of(tls::role::power, request.response_id(), other));
  for (const auto as : {tls::role::operator_, tls::role::reader})
    CHECK(refused_of(as, request.response_id(), m.grant));
  CHECK_FALSE(refused_of(tls::role::node, request.response_id(), m.step));
}
