// Connect, report; and what a failure comes to.
#include "actors/power/parent_link.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <caf/error.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include "actors/base/actor_log.hpp"
#include "actors/base/ask.hpp"
#include "actors/base/defaults.hpp"
#include "actors/power/budget.hpp"
#include "actors/power/node_parent.hpp"
#include "actors/power/pacer.hpp"
#include "io/config/power_tree.hpp"
#include "messages/errors.hpp"
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
  self->send(l.finder, make_msg<fbs::LeaveBudget>(context_of(*self, 0), [](auto&) {}));
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

/// What the finder has come to.
template <class Self>
void take_found(Self self, parent_link& l, const fbs::BudgetFound& f,
                const caf::strong_actor_ptr& peer) {
  if (auto name = text_of(f.budget()); !name.empty()) l.name = std::move(name);
  if (auto address = text_of(f.address()); !address.empty()) l.address = std::move(address);
  if (f.failure() != nullptr) return failed(self, l, error_in(*f.failure()));
  if (!peer) return failed(self, l, {errc::unavailable, "nothing is published there"});
  l.handle = caf::actor_cast<budget_actor>(peer);
  self->monitor(l.handle);
  send_report(self, l);
}

template <class Self>
void connect(Self self, parent_link& l) {
  l.busy = true;
  const auto call = ++l.calls;
  const auto m = make_msg<fbs::FindBudget>(context_of(*self, 0), [](auto&) {});
  request(self, l.finder, m)
      .then(
          [self, &l, call](const msg<fbs::BudgetFound>& f, const caf::strong_actor_ptr& peer) {
            if (l.calls == call) take_found(self, l, *f, peer);
          },
          [self, &l, call](const caf::error& e) {
            if (l.calls == call) failed(self, l, from_caf(e));
          });
}

}  // namespace

template <class Self>
void begin_link(Self self, parent_link& l) {
  l.finder = l.options.finder(self->system());
  note_spawned("finder", l.finder);
  self->attach_functor(
      [finder = l.finder] { caf::anon_send_exit(finder, caf::exit_reason::user_shutdown); });
}

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

template void begin_link(pacer_pointer, parent_link&);
template void begin_link(budget_pointer, parent_link&);
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
