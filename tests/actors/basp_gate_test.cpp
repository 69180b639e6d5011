// The end of the broker between sockets and CAF: what comes to it then (GAT-4). What it lets pass
// is tried with real processes (tests/cluster/ingress_test.cpp, roles_test.cpp).
#include "actors/cluster/basp_gate.hpp"

#include <poll.h>

#include <chrono>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <caf/all.hpp>
#include <caf/io/basp_broker.hpp>

#include "tests/loopback.hpp"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

struct gated_config : runtime_config {
  gated_config() {
    set("scheduler.max-threads", 1);
    load<cluster::gated_middleman>();
  }
};

}  // namespace

TEST_CASE("gate: who asks a broker that has ended is refused at once (GAT-4)") {
  gated_config config;
  caf::actor_system system(config);
  const auto broker = system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
  caf::scoped_actor self(system);
  self->send_exit(broker, caf::exit_reason::user_shutdown);
  self->wait_for(broker);
  caf::error why;
  self->request(broker, 5s, caf::ok_atom_v)
      .receive([] {}, [&](caf::error& e) { why = std::move(e); });
  CHECK(caf::to_string(why) == caf::to_string(caf::make_error(caf::sec::request_receiver_down)));
}

TEST_CASE("gate: a link that has heard nothing yet has its time, not a beat's (GAT-6)") {
  constexpr auto timeout = 400ms;
  gated_config config;
  config.set("middleman.heartbeat-interval", caf::timespan(10ms));
  config.set("middleman.connection-timeout", caf::timespan(timeout));
  caf::actor_system system(config);
  const auto listener = loopback_listener();
  const auto began = std::chrono::steady_clock::now();
  caf::scoped_actor self(system);
  auto answer = self->request(system.middleman().actor_handle(), caf::infinite,
                                    caf::connect_atom_v, std::string("127.0.0.1"),
                                    port_of(listener));
  const io::unique_fd link(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  pollfd what{link.get(), POLLIN, 0};
  char beats[1024];
  do REQUIRE(poll(&what, 1, 300'000) == 1);
  while (recv(link.get(), beats, sizeof beats, 0) > 0);
  CHECK(std::chrono::steady_clock::now() - began >= timeout);
  bool made = false;
  answer.receive([&](const caf::node_id&, const caf::strong_actor_ptr&,
                     const std::set<std::string>&) { made = true; },
                 [](const caf::error&) {});
  CHECK_FALSE(made);
}
