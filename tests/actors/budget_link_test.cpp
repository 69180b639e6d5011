// A job and its power budget over a real link: who each is to the other, what passes and what does
// not.
#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <caf/all.hpp>
#include <caf/openssl/publish.hpp>

#include "actors/base/context.hpp"
#include "actors/base/traced.hpp"
#include "actors/base/trust.hpp"
#include "actors/cluster/network.hpp"
#include "actors/cluster/tls_keys.hpp"
#include "messages/errors.hpp"
#include "tests/in_a_process.hpp"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

constexpr auto answer_time = 60s;  // who answers does so at once

struct granting_state {
  static inline const char* name = "budget";
};

using reporter_actor = component_actor::extend<tell<fbs::PaceTaken>>;
struct reporter_state {
  static inline const char* name = "pacer";
};

/// Says something unasked to who reports. Refuses a report of no watts; else grants, to the name
/// that the reporter has proved.
budget_actor::behavior_type granting(traced_pointer<budget_actor, granting_state> self) {
  guard_mailbox(self);
  introduce(self, "budget/row0");
  return {status_handler(self),
          [self](const msg<fbs::PowerReport>& m) -> caf::result<msg<fbs::PowerGrant>> {
            self->send(caf::actor_cast<reporter_actor>(self->current_sender()),
                       make_msg<fbs::PaceTaken>());
            const auto who = self->runtime().peers.find(self->current_sender());
            if (m->drawn_mw() == 0) return to_caf({errc::unavailable, "not now"});
            return make_msg<fbs::PowerGrant>(context_of(*self, m.header()), [&](auto& g) {
              g.budget = who && who->as == tls::role::power ? who->name : "nobody";
            });
          },
          [self](const msg<fbs::ReadPowerTree>& m) {
            return make_msg<fbs::PowerTree>(context_of(*self, m.header()));
          },
          [self](const msg<fbs::SetPowerBudget>& m) {
            return make_msg<fbs::Ack>(context_of(*self, m.header()));
          },
          [self](const msg<fbs::SetPowerBrake>& m) {
            return make_msg<fbs::Ack>(context_of(*self, m.header()));
          },
          [](const msg<fbs::FindGateway>&)
              -> caf::result<msg<fbs::GatewayFound>, caf::strong_actor_ptr> {
            return to_caf({errc::unavailable, "no gateway"});
          },
          [](caf::tick_atom) {}};
}

/// What a job has heard.
struct heard {
  std::promise<std::string> grant, refusal, tree;
  std::atomic<int> unasked{0};
};

std::string kind_of(const caf::error& e) {
  return std::string(to_string(from_caf(e).code));
}

/// Reports, asks what it may not, and reports what is refused.
reporter_actor::behavior_type reporter(traced_pointer<reporter_actor, reporter_state> self,
                                       const budget_actor& budget, heard* out) {
  guard_mailbox(self);
  introduce(self, "pacer");
  self->request(budget, answer_time,
                make_msg<fbs::PowerReport>({}, [](auto& r) { r.drawn_mw = 1; }))
      .then([out](const msg<fbs::PowerGrant>& g) { out->grant.set_value(g->budget()->str()); },
            [out](const caf::error& e) { out->grant.set_value(kind_of(e)); });
  self->request(budget, answer_time, make_msg<fbs::ReadPowerTree>())
      .then([out](const msg<fbs::PowerTree>&) { out->tree.set_value("a tree"); },
            [out](const caf::error& e) { out->tree.set_value(kind_of(e)); });
  self->request(budget, answer_time,
                make_msg<fbs::PowerReport>({}, [](auto& r) { r.drawn_mw = 0; }))
      .then([out](const msg<fbs::PowerGrant>&) { out->refusal.set_value("a grant"); },
            [out](const caf::error& e) { out->refusal.set_value(kind_of(e)); });
  return {status_handler(self), [out](const msg<fbs::PaceTaken>&) { ++out->unasked; }};
}

budget_actor connected(caf::actor_system& system, caf::scoped_actor& self, uint16_t port) {
  budget_actor out;
  self->request(cluster::connector(system), answer_time, caf::connect_atom_v,
                std::string("127.0.0.1"), port)
      .receive([&](const caf::node_id&, const caf::strong_actor_ptr& peer,
                   const std::set<std::string>&) { out = caf::actor_cast<budget_actor>(peer); },
               [](const caf::error&) {});
  return out;
}

/// 0 where all is as it should be; else the number of what is not. One process has both systems,
/// and one proof: the job's head would have another, which the budget knows nothing of.
int reported_over_a_link(const std::string&) {
  const auto secret = tls::job_key::make();
  const tls::bearer job{tls::role::power, "gpt-a"};
  cluster::network_options options;
  options.proof = tls::proof{*secret, {tls::role::node, "budget"}};
  if (!cluster::prove(options)) return 1;
  cluster::system_config at_budget(options), at_job(options);
  caf::actor_system budget_system(at_budget);
  caf::actor_system job_system(at_job);
  const auto budget = budget_system.spawn(granting);
  const auto port = caf::openssl::publish(budget, 0, "127.0.0.1", true);
  if (!port) {
    caf::anon_send_exit(budget, caf::exit_reason::user_shutdown);
    return 2;
  }
  const auto proof = cluster::prove_to(*port, {*secret->handed_to(job), job});
  heard out;
  int wrong = 0;
  {
    caf::scoped_actor self(job_system);
    const auto found = connected(job_system, self, *port);
    if (!found) wrong = 3;
    const auto known =
        runtime_of(job_system).peers.find(caf::actor_cast<caf::strong_actor_ptr>(found));
    if (found && known != peer{"the power budget", tls::role::power}) wrong = 4;
    if (found) {
      const auto pacer = job_system.spawn(reporter, found, &out);
      if (out.grant.get_future().get() != "gpt-a") wrong = 5;
      if (out.tree.get_future().get() != to_string(errc::permission)) wrong = 6;
      if (out.refusal.get_future().get() != to_string(errc::unavailable)) wrong = 7;
      if (out.unasked != 0) wrong = 8;
      self->send_exit(pacer, caf::exit_reason::user_shutdown);
      self->wait_for(pacer);
    }
  }
  caf::anon_send_exit(budget, caf::exit_reason::user_shutdown);
  return wrong;
}

}  // namespace

TEST_CASE("budget link: a job reports, hears grants and refusals, and nothing else (FRM-4)") {
  CHECK(in_a_process(reported_over_a_link) == 0);
}
