// Find, prove, connect, report; and what a failure comes to.
#include "actors/power/parent_link.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <caf/error.hpp>
#include <caf/sec.hpp>

#include "actors/base/ask.hpp"
#include "actors/base/defaults.hpp"
#include "actors/power/budget.hpp"
#include "actors/power/node_parent.hpp"
#include "actors/power/pacer.hpp"
#include "io/config/power_tree.hpp"
#include "messages/text.hpp"

namespace troupe::power {

namespace {

static_assert(config::job_report_ms == defaults::power_report_period.count() &&
                  config::job_look_ms == defaults::pacer_period.count(),
              "PTR-4: a lease is long enough for what is reported here");

template <class Self>
void failed(Self self, parent_link& l, const error& why) {
  if (l.handle) self->demonitor(l.handle.address());
  l.handle = budget_actor{};
  l.proof.reset();  // PPL-2
  l.busy = false;
  ++l.calls;  // PPL-1
  l.pause_ns = std::min(l.pause_ns > 0 ? 2 * l.pause_ns : ns_of(defaults::parent_pause),
                        ns_of(defaults::parent_far_pause));
  l.next_ns = now_ns(*self) + l.pause_ns;
  l.problem = why.hint.empty() ? why.message : fmt::format("{} ({})", why.message, why.hint);
  const bool is_told = l.says_unfound || !l.address.empty();
  if (is_told && !std::exchange(l.told_problem, true))  // PPL-3
    l.say(fmt::format("{} is not heard: {}", parent_place_in_words(l), l.problem));
  l.changed();
}

/// It is said before what is known of the budget is told to have changed.
template <class Self>
void refused(Self self, parent_link& l, const error& why) {
  l.refused(why);
  failed(self, l, why);
}

template <class Self>
void hear_grant(Self self, parent_link& l, const fbs::PowerGrant& g) {
  if (const auto taken = l.heard(g); !taken) return failed(self, l, taken.error());
  l.busy = false;
  l.pause_ns = 0;
  l.problem.clear();
  l.told_problem = false;
  if (auto name = text_of(g.budget()); tls::is_name(name)) l.name = std::move(name);
  l.changed();
  keep_in_touch(self, l);
}

template <class Self>
void send_report(Self self, parent_link& l) {
  l.busy = true;
  l.next_ns = now_ns(*self) + ns_of(defaults::power_report_period);
  auto said = l.report();
  said.child = l.options.child;
  const auto m = make_msg<fbs::PowerReport>(context_of(*self, 0), said);
  const auto call = ++l.calls;
  request(self, l.handle, m)
      .then(
          [self, &l, call](const msg<fbs::PowerGrant>& g) {
            if (l.calls == call) hear_grant(self, l, *g);
          },
          [self, &l, call](const caf::error& e) {
            if (l.calls == call) refused(self, l, from_caf(e));
          });
}

template <class Self>
void connected(Self self, parent_link& l, const caf::strong_actor_ptr& peer) {
  if (!peer) return failed(self, l, {errc::unavailable, "nothing is published there"});
  if (peer->id() == self->id() && peer->node() == self->node())  // NDP-1
    return failed(self, l, own_parent(l.options.child));
  const auto holder = self->runtime().peers.find(peer);
  if (holder && holder->as != tls::role::power)  // PPL-5
    return failed(self, l,
                  {errc::permission,
                   fmt::format("{} answers there, whose certificate is of role {}", holder->name,
                               to_string(holder->as)),
                   "a power budget has one of role power: `troupe certs DIR --budget NAME`"});
  l.handle = caf::actor_cast<budget_actor>(peer);
  self->monitor(l.handle);
  send_report(self, l);
}

template <class Self>
void connect(Self self, parent_link& l) {
  const auto found = l.options.find();
  if (!found) return failed(self, l, found.error());
  l.name = found->name.empty() ? l.name : found->name;
  l.address = fmt::format("{}:{}", found->host, found->port);
  if (found->proof) l.proof = l.options.prove(found->port, *found->proof);  // PPL-2
  l.busy = true;
  const auto call = ++l.calls;
  self->request(l.options.connector(self->system()), defaults::connect_timeout, caf::connect_atom_v,
                found->host, found->port)
      .then(
          [self, &l, call](const caf::node_id&, const caf::strong_actor_ptr& peer,
                           const std::set<std::string>&) {
            if (l.calls == call) connected(self, l, peer);
          },
          [self, &l, call](const caf::error& e) {
            if (l.calls != call) return;
            const bool is_own = e == caf::make_error(caf::sec::redundant_connection);  // NDP-1
            failed(self, l, is_own ? own_parent(l.options.child) : from_caf(e));
          });
}

}  // namespace

template <class Self>
void keep_in_touch(Self self, parent_link& l) {
  if (l.busy || now_ns(*self) < l.next_ns) return;
  if (l.handle)
    send_report(self, l);
  else
    connect(self, l);
}

template <class Self>
void parent_down(Self self, parent_link& l, const caf::down_msg& m) {
  if (l.handle && m.source == l.handle.address())
    failed(self, l, {errc::unavailable, "the link to it has ended: " + from_caf(m.reason).message});
}

template void keep_in_touch(pacer_pointer, parent_link&);
template void keep_in_touch(budget_pointer, parent_link&);
template void parent_down(pacer_pointer, parent_link&, const caf::down_msg&);
template void parent_down(budget_pointer, parent_link&, const caf::down_msg&);

fbs::PowerReportT message_of(const power_report& r) {
  fbs::PowerReportT out;
  out.incarnation = r.id.incarnation;
  out.sent_ns = r.id.sent_ns;
  out.lease_epoch = r.order.epoch;
  out.lease_sequence = r.order.sequence;
  out.in_force_mw = r.in_force_mw;
  out.drawn_mw = r.drawn_mw.value_or(-1);
  out.wish_mw = r.wish_mw;
  return out;
}

power_answer answer_in(const fbs::PowerGrant& g) {
  return {{{g.lease_epoch(), g.lease_sequence()},
           {g.answers_incarnation(), g.answers_sent_ns()},
           g.cap_mw(),
           g.ttl_ms() * ns_per_ms,
           g.shed()},
          g.static_share_mw(),
          g.brake()};
}

machine_counts shared_in(const fbs::PowerGrant& g) {
  machine_counts out;
  if (g.shared_machines() == nullptr) return out;
  for (const auto* m : *g.shared_machines()) out[text_of(m->machine())] = m->children();
  return out;
}

status must_fit(grant_verdict verdict, std::string_view whom) {
  if (verdict != grant_verdict::impossible && verdict != grant_verdict::not_to_us) return {};
  return error{errc::bad_data, fmt::format("its answer fits no report of {}", whom)};
}

std::string parent_in_words(const parent_link& l) {
  return l.name.empty() ? "the power budget" : "the power budget " + l.name;
}

std::string parent_place_in_words(const parent_link& l) {
  return l.address.empty() ? parent_in_words(l)
                           : fmt::format("{} at {}", parent_in_words(l), l.address);
}

}  // namespace troupe::power
