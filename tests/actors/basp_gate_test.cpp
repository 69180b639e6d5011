// The end of the broker between sockets and CAF: what comes to it then (GAT-4). What it lets pass
// is tried with real processes (tests/cluster/door_test.cpp, roles_test.cpp).
#include "actors/cluster/basp_gate.hpp"

#include <chrono>

#include <doctest/doctest.h>
#include <caf/all.hpp>
#include <caf/io/basp_broker.hpp>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

struct gated_config : caf::actor_system_config {
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
