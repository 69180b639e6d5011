// Find, prove, connect, report; and what a failure comes to.
#include "actors/power/parent_link.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/base/defaults.hpp"
#include "actors/power/budget.hpp"
#include "actors/power/pacer.hpp"
#include "io/config/power_tree.hpp"
#include "messages/text.hpp"

namespace troupe::power {

namespace {

static_assert(config::job_report_ms == defaults::power_report_period.count() &&
                  config::job_look_ms == defaults::pacer_period.count(),
              "PTR-4: a lease is long enough for what is reported here");

parent_link& link_of(pacer_pointer self) {
  return *self->state.parent;
}

void say(pacer_pointer self, std::string text) {
  const auto& to = link_of(self).options.reporter;
  if (!to) return;
  self->send(to, make_msg<fbs::Notice>(context_of(*self, self->epoch()), [&](auto& n) {
               n.level = fbs::NoticeLevel::warning;
               n.text = std::move(text);
             }));
}

/// Where it was found, too, if it was.
std::string place_in_words(const parent_link& l) {
  return l.address.empty() ? parent_in_words(l)
                           : fmt::format("{} at {}", parent_in_words(l), l.address);
}

void failed(pacer_pointer self, const error& why) {
  auto& l = link_of(self);
  if (l.handle) self->demonitor(l.handle.address());
  l.handle = budget_actor{};
  l.proof.reset();  // PPL-2
  l.busy = false;
  ++l.calls;  // PPL-1
  l.pause_ns = std::min(l.pause_ns > 0 ? 2 * l.pause_ns : ns_of(defaults::parent_pause),
                        ns_of(defaults::parent_far_pause));
  l.next_ns = now_ns(*self) + l.pause_ns;
  l.problem = why.hint.empty() ? why.message : fmt::format("{} ({})", why.message, why.hint);
  // Where it was never found the run says it: that is why it waits.
  if (!l.address.empty() && !std::exchange(l.told_problem, true))  // PPL-3
    say(self, fmt::format("{} is not heard: {}", place_in_words(l), l.problem));
  l.changed();
}

/// JLP-4
void refused(pacer_pointer self, const error& why) {
  auto& lease = link_of(self).lease;
  if (why.is(process_superseded)) lease.refused(lease_hold::replaced);
  if (why.code == errc::not_found) lease.refused(lease_hold::no_child);
  failed(self, why);
}

int64_t mw_or_none(double w) {
  return w < 0 ? -1 : std::llround(w * 1000);
}

/// What it would draw without the cap of the budget above it, in milliwatts; -1: it is not known.
/// While a person has it paused others may have what it does not draw.
int64_t wish_of(const pacer_state& st, const job_pace_policy::totals& all) {
  if (st.paused && all.power_w >= 0) return mw_or_none(all.power_w);
  const double full_w = all.full_w >= 0 ? all.full_w : all.limit_w;
  if (st.own_w <= 0) return mw_or_none(full_w);
  return mw_or_none(full_w < 0 ? st.own_w : std::min(full_w, st.own_w));
}

fbs::PowerReportT report_of(pacer_pointer self) {
  const auto& st = self->state;
  const auto now = now_ns(*self);
  auto all = st.policy.sum(now);
  if (all.is_stale) all.power_w = all.mean_w = -1;  // what it drew once accuses nobody now
  const auto drawn_mw = mw_or_none(all.mean_w);     // a pace is kept by the mean of whole steps
  const auto r = st.parent->lease.report(now, drawn_mw < 0 ? std::nullopt : std::optional(drawn_mw),
                                         wish_of(st, all));
  auto out = message_of(r);
  out.source = source_of(all);
  out.pace_of_1024 = st.parent->lease.is_braked() ? 0 : st.step_pace;
  out.brake_armed = st.brake_armed;
  for (const auto& machine : st.policy.machines()) out.machines.push_back(machine);
  return out;
}

std::map<std::string, uint32_t> shared_in(const fbs::PowerGrant& g) {
  std::map<std::string, uint32_t> out;
  if (g.shared_machines() == nullptr) return out;
  for (const auto* m : *g.shared_machines()) out[text_of(m->machine())] = m->children();
  return out;
}

void heard(pacer_pointer self, const fbs::PowerGrant& g) {
  auto& l = link_of(self);
  const auto verdict = l.lease.hear(answer_in(g), now_ns(*self));
  if (verdict == grant_verdict::impossible || verdict == grant_verdict::not_to_us)
    return failed(self, {errc::bad_data, "its answer fits no report of this job"});
  l.busy = false;
  l.pause_ns = 0;
  l.problem.clear();
  l.told_problem = false;
  if (auto name = text_of(g.budget()); tls::is_name(name)) l.name = std::move(name);
  self->state.policy.set_shared(shared_in(g), now_ns(*self));
  l.changed();
  keep_in_touch(self);
}

void report(pacer_pointer self) {
  auto& l = link_of(self);
  l.busy = true;
  l.next_ns = now_ns(*self) + ns_of(defaults::power_report_period);
  const auto m = make_msg<fbs::PowerReport>(context_of(*self, 0), report_of(self));
  const auto call = ++l.calls;
  request(self, l.handle, m)
      .then(
          [self, call](const msg<fbs::PowerGrant>& g) {
            if (link_of(self).calls == call) heard(self, *g);
          },
          [self, call](const caf::error& e) {
            if (link_of(self).calls == call) refused(self, from_caf(e));
          });
}

void connected(pacer_pointer self, const caf::strong_actor_ptr& peer) {
  auto& l = link_of(self);
  if (!peer) return failed(self, {errc::unavailable, "nothing is published there"});
  l.handle = caf::actor_cast<budget_actor>(peer);
  self->monitor(l.handle);
  report(self);
}

void connect(pacer_pointer self) {
  auto& l = link_of(self);
  const auto found = l.options.find();
  if (!found) return failed(self, found.error());
  l.name = found->name.empty() ? l.name : found->name;
  l.address = fmt::format("{}:{}", found->host, found->port);
  l.proof = l.options.prove(found->port, found->proof);  // PPL-2
  l.busy = true;
  const auto call = ++l.calls;
  self->request(l.options.connector(self->system()), defaults::connect_timeout, caf::connect_atom_v,
                found->host, found->port)
      .then(
          [self, call](const caf::node_id&, const caf::strong_actor_ptr& peer,
                       const std::set<std::string>&) {
            if (link_of(self).calls == call) connected(self, peer);
          },
          [self, call](const caf::error& e) {
            if (link_of(self).calls == call) failed(self, from_caf(e));
          });
}

}  // namespace

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

void keep_in_touch(pacer_pointer self) {
  const auto& l = link_of(self);
  if (l.busy || now_ns(*self) < l.next_ns) return;
  if (l.handle)
    report(self);
  else
    connect(self);
}

int64_t cap_of_now(pacer_pointer self) {
  auto& l = link_of(self);
  const auto now = now_ns(*self);
  const auto cap_mw = l.lease.tick(now);
  const bool lapsed = l.lease.was_leased() && !l.lease.is_leased(now);
  if (std::exchange(l.told_lapse, lapsed) == lapsed) return cap_mw;  // PPL-3
  const auto w = static_cast<double>(cap_mw) / 1000;
  say(self, lapsed ? fmt::format("the lease of {} has lapsed: from its next step on the job "
                                 "keeps to {:.4g} W, until it is granted another",
                                 parent_in_words(l), w)
                   : fmt::format("{} grants again: {:.4g} W", parent_in_words(l), w));
  return cap_mw;
}

void save_if_shed(pacer_pointer self) {
  auto& l = link_of(self);
  const bool shed = l.lease.hold() == lease_hold::shed;
  if (std::exchange(l.shed, shed) == shed || !shed || !l.stepped) return;
  const auto m = make_msg<fbs::CheckpointNow>(context_of(*self, 0), [&](auto& asked) {
    asked.reason = parent_in_words(l) + " wants the work paused";
  });
  request(self, self->state.run, m)
      .then([](const msg<fbs::Ack>&) {},
            [self](const caf::error& e) {
              say(self, "no checkpoint before the pause that the power budget wants: " +
                            from_caf(e).message);
            });
}

void parent_down(pacer_pointer self, const caf::down_msg& m) {
  const auto& l = link_of(self);
  if (l.handle && m.source == l.handle.address())
    failed(self, {errc::unavailable, "the link to it has ended: " + from_caf(m.reason).message});
}

std::string why_held(const parent_link& l) {
  switch (l.lease.hold()) {
    case lease_hold::none:
      return "";
    case lease_hold::replaced:
      return "another process works as this job under " + parent_in_words(l);
    case lease_hold::no_child:
      return parent_in_words(l) + " knows no job of this name: " + l.problem;
    case lease_hold::no_lease:
      return l.address.empty() ? "no power budget is found: " + l.problem
                               : fmt::format("no lease yet from {}{}{}", place_in_words(l),
                                             l.problem.empty() ? "" : ": ", l.problem);
    case lease_hold::no_watts:
      return parent_in_words(l) + " grants no watts now";
    case lease_hold::shed:
      return parent_in_words(l) + " wants the work paused";
    case lease_hold::brake:
      return parent_in_words(l) + " holds all work by its brake";
  }
  return "";
}

std::string parent_in_words(const parent_link& l) {
  return l.name.empty() ? "the power budget" : "the power budget " + l.name;
}

}  // namespace troupe::power
