// Find, prove, connect.
#include "actors/power/budget_finder.hpp"

#include <set>
#include <utility>

#include <fmt/format.h>
#include <caf/error.hpp>
#include <caf/node_id.hpp>
#include <caf/sec.hpp>
#include <caf/typed_response_promise.hpp>

#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "actors/power/node_parent.hpp"
#include "messages/errors.hpp"

namespace troupe::power {

namespace {

using found_promise = caf::typed_response_promise<msg<fbs::BudgetFound>, caf::strong_actor_ptr>;

/// One search, on its way.
struct search {
  message_header asked;
  caf::strong_actor_ptr owner;
  std::string name = {}, address = {};  ///< as far as they are known
};

msg<fbs::BudgetFound> answer_of(finder_pointer self, const search& s,
                                const std::optional<error>& why) {
  return make_msg<fbs::BudgetFound>(context_of(*self, s.asked), [&](fbs::BudgetFoundT& f) {
    f.budget = s.name;
    f.address = s.address;
    if (!why) return;
    f.failure = std::make_unique<fbs::FailureT>();
    put_error(*why, *f.failure);
  });
}

void fail(finder_pointer self, found_promise rp, const search& s, const error& why) {
  self->state.proof.reset();  // PPL-2
  publish(self, "not connected");
  rp.deliver(answer_of(self, s, why), caf::strong_actor_ptr{});
}

/// Why who answers there is not the budget above.
std::optional<error> fault_of(finder_pointer self, const search& s,
                              const caf::strong_actor_ptr& peer) {
  if (!peer) return error{errc::unavailable, "nothing is published there"};
  if (peer->id() == s.owner->id() && peer->node() == s.owner->node())  // NDP-1
    return own_parent(self->state.options.child);
  const auto holder = self->runtime().peers.find(peer);
  if (holder && holder->as != tls::role::power)  // PPL-5
    return error{errc::permission,
                 fmt::format("{} answers there, whose certificate is of role {}", holder->name,
                             to_string(holder->as)),
                 "a power budget has one of role power: `troupe certs DIR --budget NAME`"};
  return std::nullopt;
}

void connected(finder_pointer self, found_promise rp, const search& s,
               const caf::strong_actor_ptr& peer) {
  if (const auto fault = fault_of(self, s, peer)) return fail(self, rp, s, *fault);
  publish(self, "connected");
  rp.deliver(answer_of(self, s, std::nullopt), peer);
}

caf::result<msg<fbs::BudgetFound>, caf::strong_actor_ptr> begin_search(
    finder_pointer self, const msg<fbs::FindBudget>& m) {
  auto& st = self->state;
  st.proof.reset();  // PPL-2
  search s{m.header(), self->current_sender()};
  auto rp = self->make_response_promise<msg<fbs::BudgetFound>, caf::strong_actor_ptr>();
  const auto found = st.options.find();
  if (!found) {
    fail(self, rp, s, found.error());
    return rp;
  }
  s.name = found->name;
  s.address = fmt::format("{}:{}", found->host, found->port);
  if (found->proof) st.proof = st.options.prove(found->port, *found->proof);  // PPL-2
  publish(self, "connecting");
  self->request(st.options.connector(self->system()), defaults::connect_timeout,
                caf::connect_atom_v, found->host, found->port)
      .then([self, rp, s](const caf::node_id&, const caf::strong_actor_ptr& peer,
                          const std::set<std::string>&) { connected(self, rp, s, peer); },
            [self, rp, s](const caf::error& e) {
              const bool is_own = e == caf::make_error(caf::sec::redundant_connection);  // NDP-1
              fail(self, rp, s,
                   is_own ? own_parent(self->state.options.child) : error(from_caf(e)));
            });
  return rp;
}

}  // namespace

finder_actor::behavior_type budget_finder(finder_pointer self, finder_options options) {
  guard_mailbox(self);
  introduce(self, "finder", 0);
  self->state.options = std::move(options);
  publish(self, "not connected");
  return {
      status_handler(self),
      [self](const msg<fbs::FindBudget>& m) { return begin_search(self, m); },
      [self](const msg<fbs::LeaveBudget>&) {
        self->state.proof.reset();  // PPL-2
        publish(self, "not connected");
      },
  };
}

}  // namespace troupe::power
