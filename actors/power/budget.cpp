// Reports to the policy, its grants to children, and what is kept of both.
#include "actors/power/budget.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "actors/power/budget_dry.hpp"
#include "actors/power/budget_orders.hpp"
#include "actors/power/budget_phase.hpp"
#include "io/base/printable.hpp"
#include "io/base/text.hpp"
#include "io/config/power_tree.hpp"
#include "messages/text.hpp"

namespace troupe::power {

namespace {

constexpr uint32_t whole_pace = 1024;

// -- what is known of children --------------------------------------------------------------------

std::string state_word(const budget_state& st, int64_t now_ns) {
  if (holds_all(st) || st.policy->holds_work()) return "holding all work";
  if (!st.policy->knows(now_ns)) return "learning what children have";
  if (st.parent && !st.parent->told.leased) return "without a lease";
  return st.short_of_floors ? "short of floors" : "granting";
}

std::string_view proof_of(const named_child& c) {
  return c.certificate.empty() ? c.name : c.certificate;
}

// -- reports --------------------------------------------------------------------------------------

std::optional<std::string> proved_name(budget_pointer self) {
  if (const auto& who = self->state.options.who) return who(self->current_sender());
  const auto holder = self->runtime().peers.find(self->current_sender());
  if (!holder || holder->as != tls::role::power) return std::nullopt;
  return holder->name;
}

/// BGA-2
result<size_t> child_that_speaks(budget_pointer self, const fbs::PowerReport& said) {
  auto& st = self->state;
  const auto refuse = [&](std::string_view who, error why) {
    st.journal.refused(who, why.message);
    return why;
  };
  const auto name = proved_name(self);
  if (!name)
    return refuse(
        "unknown",
        {errc::permission,
         "a report from a sender that has shown neither a key of role power nor a certificate",
         "a job joins a budget with the key that was made for its name (troupe key --role power), "
         "or where the budget has certificates with its own (cluster.tls)"});
  const auto it = st.proofs.find(*name);
  if (it == st.proofs.end()) return refuse(*name, unknown_child(st, *name, true));
  const auto& child = st.options.children[it->second];
  const auto meant = text_of(said.child());
  if (!child.certificate.empty() && meant != child.name)
    return refuse(*name, another_child(child.certificate, child.name,
                                       printable(meant, shown_of_name), st.options.name));
  return it->second;
}

/// What is no watts at all stays below zero: the policy refuses it.
power_report report_in(const fbs::PowerReport& r, const budget_child& terms, bool held) {
  power_report out;
  out.id = {r.incarnation(), r.sent_ns()};
  out.order = {r.lease_epoch(), r.lease_sequence()};
  out.in_force_mw = r.in_force_mw();
  if (r.drawn_mw() != -1) out.drawn_mw = r.drawn_mw();
  out.wish_mw = r.wish_mw() == -1 ? terms.ceiling_mw : r.wish_mw();
  out.works = r.pace_of_1024() > 0;
  out.held = held;
  out.actuation_ns = std::max<int64_t>(0, r.actuation_ms()) * ns_per_ms;
  return out;
}

/// -1: nothing was measured.
bool is_actuation(int64_t ms) {
  constexpr int64_t a_day_ms = 86'400'000;
  return ms >= -1 && ms <= a_day_ms;
}

size_t machines_told(const fbs::PowerReport& r) {
  return r.machines() == nullptr ? 0 : r.machines()->size();
}

std::set<std::string> machines_in(const fbs::PowerReport& r) {
  std::set<std::string> out;
  if (r.machines() == nullptr) return out;
  for (const auto* m : *r.machines())
    if (m->size() > 0 && m->size() <= shown_of_name) out.insert(m->str());
  return out;
}

error impossible(const budget_state& st, size_t child, const fbs::PowerReport& r) {
  return impossible_report(
      st.options.children[child].name,
      fmt::format(
          "{} mW in force, {} drawn, {} wished, sent at {} ns, of lease {}/{}, {} machines, "
          "in force after {} ms",
          r.in_force_mw(), r.drawn_mw(), r.wish_mw(), r.sent_ns(), r.lease_epoch(),
          r.lease_sequence(), machines_told(r), r.actuation_ms()));
}

error other_process(budget_state& st, size_t child, const power_report& r) {
  const auto& name = st.options.children[child].name;
  auto out =
      process_superseded(name, st.policy->incarnation(child), r.id.incarnation, st.options.name);
  st.journal.refused(name, out.message);
  return out;
}

/// `granted`: none: no lease is due.
msg<fbs::PowerGrant> grant_for(budget_pointer self, size_t child, const msg<fbs::PowerReport>& r,
                               const power_grant* granted) {
  const auto& o = self->state.options;
  static const machine_counts none;
  const auto& above = self->state.parent;
  const auto& shared_above = above ? above->shared : none;
  return make_msg<fbs::PowerGrant>(context_of(*self, r.header()), [&](fbs::PowerGrantT& g) {
    g.budget = o.name;
    g.answers_incarnation = r->incarnation();
    g.answers_sent_ns = r->sent_ns();
    const auto& terms = o.children[child].terms;
    const bool whole = has_ceiling(self->state, child);  // BGA-9
    g.static_share_mw = whole ? terms.ceiling_mw : terms.static_share_mw;
    g.floor_mw = o.children[child].terms.floor_mw;
    g.free_mw = free_beside(self->state, child);
    tell_offset(self->state, child, now_ns(*self), g);
    g.brake = o.dry_run ? holds_all(self->state) : is_braked(self->state, child);
    if (g.brake) g.brake_of = above && above->lease.is_braked() ? brake_above(self->state) : o.name;
    for (const auto& [machine, children] : self->state.machines.shared_by(child, shared_above)) {
      auto& shared = *g.shared_machines.emplace_back(std::make_unique<fbs::SharedMachineT>());
      shared.machine = machine;
      shared.children = children;
    }
    if (granted == nullptr) return;
    g.lease_epoch = granted->order.epoch;
    g.lease_sequence = granted->order.sequence;
    const auto given = o.dry_run ? dry_grant(*granted, terms, whole) : *granted;
    g.cap_mw = given.cap_mw;
    g.ttl_ms = static_cast<uint32_t>(given.ttl_ns / ns_per_ms);
    g.shed = given.shed;
  });
}

void answer_waiting(budget_pointer self, size_t child, const power_grant* granted) {
  auto waiting = std::exchange(self->state.children[child].waiting, std::nullopt);
  if (waiting) waiting->answer.deliver(grant_for(self, child, waiting->report, granted));
}

void note_report(budget_pointer self, size_t child, const power_report& r,
                 const fbs::PowerReport& said) {
  auto& st = self->state;
  auto& c = st.children[child];
  if (!c.heard) st.journal.heard_first(child, r);
  if (c.last.id.incarnation != r.id.incarnation) c.lease_until_ns = 0;
  c.heard = true;
  c.heard_ns = now_ns(*self);
  c.last = r;
  c.wishes_all = said.wish_mw() == -1;
  c.source = !r.drawn_mw                                   ? fbs::PowerSource::unknown
             : said.source() == fbs::PowerSource::measured ? fbs::PowerSource::measured
                                                           : fbs::PowerSource::modelled;
  c.pace_of_1024 = std::min(said.pace_of_1024(), whole_pace);
  c.brake_armed = said.brake_armed();
  c.actuation_ms = said.actuation_ms();
  hear_beat(st, child, said, c.heard_ns);
  st.journal.machines(child, st.machines.hear(child, machines_in(said)));
}

/// BGA-1
caf::result<msg<fbs::PowerGrant>> hear_report(budget_pointer self, const msg<fbs::PowerReport>& m) {
  auto& st = self->state;
  const auto child = child_that_speaks(self, *m);
  if (!child) return to_caf(child.error());
  if (machines_told(*m) > config::most_power_children || !is_actuation(m->actuation_ms()))
    return to_caf(impossible(st, *child, *m));
  auto said = report_in(*m, st.options.children[*child].terms, is_braked(st, *child));
  const auto as_if = as_if_mw(st.children[*child], said);
  if (st.options.dry_run) said = as_if_kept(said, as_if);
  const auto now = now_ns(*self);
  const auto verdict = st.policy->hear(*child, said, now);
  if (verdict == report_verdict::impossible) return to_caf(impossible(st, *child, *m));
  st.inputs.heard(*child, said, now);
  if (verdict == report_verdict::newer_life) {
    st.journal.superseded(*child, said.order.epoch);
    return to_caf(budget_superseded(st.options.epoch, st.options.name));
  }
  if (verdict == report_verdict::older_process) return to_caf(other_process(st, *child, said));
  if (verdict == report_verdict::taken) {
    note_report(self, *child, said, *m);
    st.children[*child].as_if_mw = as_if;
  }
  if (verdict == report_verdict::older) return grant_for(self, *child, m, nullptr);
  answer_waiting(self, *child, nullptr);
  auto rp = self->make_response_promise<msg<fbs::PowerGrant>>();
  st.children[*child].waiting = waiting_report{m, rp};
  return rp;
}

// -- what outlives the process --------------------------------------------------------------------

/// What the next life is to count for each child. Of whom nothing was heard yet, what this one was
/// told to. `waits`: a child does for it.
std::vector<int64_t> watts_to_keep(const budget_state& st, bool& waits) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < st.children.size(); ++i) {
    const auto& terms = st.options.children[i].terms;
    const auto least_mw = st.options.dry_run ? terms.ceiling_mw : terms.static_share_mw;
    const auto awaits_mw = st.policy->awaits_mw(i);
    waits |= awaits_mw > 0 || (st.options.dry_run && st.children[i].heard && !has_ceiling(st, i));
    out.push_back(st.children[i].heard ? std::max({st.policy->counted_mw(i), awaits_mw, least_mw})
                                       : terms.remembered_mw);
  }
  return out;
}

/// BGA-4
void keep_record(budget_state& st, int64_t now_ns) {
  if (!st.options.keeper) return;
  bool waits = false;
  const auto watts_mw = watts_to_keep(st, waits);
  waits = st.set_is_new || (waits && !st.record.fails_for_long());
  const auto number = st.record.begin(watts_mw, waits, now_ns);
  if (!number) return;
  if (st.set_is_new || st.set_write) st.set_write = *number;
  st.set_is_new = false;
  budget_record record{st.options.epoch, {}, st.set, st.brake, st.pulled};
  for (size_t i = 0; i < watts_mw.size(); ++i)
    if (watts_mw[i] > 0) record.children_mw[st.options.children[i].name] = watts_mw[i];
  st.options.keeper->keep(*number, record_text(record));
}

/// Whether what was set is where the next life finds it, if anything outlives this one.
bool is_set_kept(const budget_state& st) {
  return !st.options.keeper || (!st.set_is_new && !st.set_write);
}

/// BGA-8. `failed`: the write of what was set has.
void give_answers(budget_pointer self, const std::optional<error>& failed) {
  auto& st = self->state;
  const auto now = now_ns(*self);
  const bool is_kept = is_set_kept(st);
  for (; !st.answers.empty(); st.answers.pop_front()) {
    auto& a = st.answers.front();
    if (!is_kept && !failed && now < a.until_ns) return;
    const auto why = set_not_recorded(a.text, failed ? failed->message : "a write takes long");
    end_order(st, a.order, is_kept ? a.text : why.message);
    if (is_kept)
      a.promise.deliver(ack_of(self, a.cause, a.text));
    else
      a.promise.deliver(to_caf(why));
  }
}

void hear_keeper(budget_pointer self) {
  auto& st = self->state;
  if (!st.options.keeper) return;
  std::optional<error> failed;
  if (const auto outcome = st.options.keeper->ended()) {
    st.record.ended(outcome->number, outcome->why);
    if (st.set_write == outcome->number) failed = outcome->why;
    if (st.set_write == outcome->number && !failed) st.set_write.reset();
  }
  st.journal.kept(st.record.trouble(now_ns(*self)));
  give_answers(self, failed);
}

// -- what is shown --------------------------------------------------------------------------------

void show_tree(budget_state& st, int64_t now_ns) {
  if (!st.options.shown) return;
  if (st.shown_ns && now_ns - *st.shown_ns < budget_options::shown_each_ns) return;
  st.shown_ns = now_ns;
  st.options.shown(tree_of(st, std::nullopt, now_ns));
}

// -- the tick -------------------------------------------------------------------------------------

/// What waits is the last report that was heard, which the grant answers. Where none waits, that
/// was answered before: the same is granted again with the next one.
void answer_with(budget_pointer self, const budget_decision::addressed& to) {
  auto& st = self->state;
  auto& c = st.children[to.child];
  if (!c.waiting) return;
  st.journal.granted(to.child, to.grant, c.told, c.last);
  c.told = to.grant;
  c.lease_until_ns = c.heard_ns + to.grant.ttl_ns;
  answer_waiting(self, to.child, &to.grant);
}

void note_conditions(budget_state& st, const budget_decision& d, const drawn_watts& drawn,
                     int64_t now_ns) {
  const auto& policy = *st.policy;
  for (size_t i = 0; i < st.children.size(); ++i) {
    const auto& c = st.children[i];
    if (!c.heard) continue;
    st.journal.conditions(i, {policy.is_silent(i, now_ns), policy.is_unruly(i)},
                          policy.counted_mw(i), c.last.drawn_mw);
  }
  st.short_of_floors = d.short_of_floors;
  st.journal.short_of_floors(d.short_of_floors, own_mw(st), policy.counted_mw());
  if (d.row.brake)
    st.journal.brake(*d.row.brake, policy.pulls(), own_mw(st), policy.counted_mw(), drawn.mw);
  st.thresholds_stand = d.thresholds_stand;
  note_rungs(st, d.row, drawn);
  if (in_thresholds(st) && !policy.is_t2_safe())
    st.journal.unsafe_t2(st.options.rules.thresholds.t2, policy.safe().safe_t2());
}

/// None where a child has not been heard just now: what it said last is old. BGT-2
std::optional<int64_t> fresh_draw(const budget_state& st, const drawn_watts& drawn,
                                  int64_t now_ns) {
  for (size_t i = 0; i < st.children.size(); ++i)
    if (!st.policy->is_fresh(i, now_ns)) return std::nullopt;
  return drawn.mw;
}

void decide_grants(budget_pointer self) {
  auto& st = self->state;
  const auto now = now_ns(*self);
  settle_budget(st, now);
  hear_keeper(self);
  const auto drawn = drawn_by_all(st, now);
  std::span<const int64_t> covered_mw;
  if (st.options.keeper) covered_mw = st.record.covered_mw();
  const auto own = own_cap_of_now(self);
  st.leased_mw = own.cap_mw;
  const budget_sample sample{fresh_draw(st, drawn, now), is_brake_armed(st, now), covered_mw};
  const auto& decided = st.policy->tick(own, sample, now);
  st.inputs.ticked(own, sample, now, decided);
  st.counted_mw = st.policy->counted_mw();
  decide_offsets(st, decided, now);
  note_pulled(st);
  keep_record(st, now);
  for (const auto& g : decided.grants) answer_with(self, g);
  for (size_t i = 0; i < st.children.size(); ++i) answer_waiting(self, i, nullptr);
  note_conditions(st, decided, drawn, now);
  account_for(st, sample.drawn_mw, now);
  trace_tick(st, drawn, now);
  show_budget(self);
  show_tree(st, now);
}

/// The next decision; under a parent, whose patience knows jobs, a look at the link before that,
/// and at the record where a person waits for it.
void await_tick(budget_pointer self) {
  auto& st = self->state;
  auto left = std::chrono::nanoseconds(st.next_tick_ns - now_ns(*self));
  if (st.parent) left = std::min<std::chrono::nanoseconds>(left, defaults::pacer_period);
  if (!st.answers.empty())
    left = std::min<std::chrono::nanoseconds>(left, defaults::power_record_look);
  ++st.looks;
  self->delayed_send(self, left, caf::tick_atom_v);
}

void decide_if_due(budget_pointer self) {
  auto& st = self->state;
  --st.looks;
  if (const auto now = now_ns(*self); now >= st.next_tick_ns) {
    st.next_tick_ns = now + st.options.rules.tick_ns;
    decide_grants(self);
  } else if (!st.answers.empty()) {
    hear_keeper(self);
    if (st.set_is_new) keep_record(st, now);
  }
  report_above(self);
  if (st.looks == 0 || !st.answers.empty()) await_tick(self);
}

void begin_budget(budget_pointer self, const budget_options& options) {
  auto& st = self->state;
  st.options = options;
  st.children.resize(options.children.size());
  st.machines = shared_machines(options.children.size());
  st.phase = phase_policy(options.children.size());
  st.began_ns = now_ns(*self);
  st.for_good_mw = options.budget_mw;
  st.set = options.set;
  st.cap_mw = standing_mw(st, st.began_ns);
  st.brake = options.brake;
  std::vector<budget_child> terms;
  std::vector<std::string> names;
  std::vector<int64_t> static_mw, remembered_mw;
  for (const auto& c : options.children) {
    st.places.emplace(c.name, terms.size());
    st.proofs.emplace(proof_of(c), terms.size());
    terms.push_back(c.terms);
    names.push_back(c.name);
    static_mw.push_back(c.terms.static_share_mw);
    remembered_mw.push_back(c.terms.remembered_mw);
  }
  st.record = {std::move(static_mw), std::move(remembered_mw), options.rules.ttl_ns};
  row_state row;
  if (options.pulled) row.brake = row_brake::on;
  st.inputs = {options.inputs,
               {options.name, options.epoch, st.began_ns, row.brake, options.rules, terms}};
  st.policy.emplace(options.rules, std::move(terms), options.epoch, st.began_ns, row);
  st.pulled = st.policy->holds_work();
  st.account = row_account(options.rules.tick_ns);
  st.next_tick_ns = st.began_ns + options.rules.tick_ns;
  st.journal = budget_journal(options.journal, std::move(names));
  st.journal.begins(options.name, options.rules.mode, st.cap_mw, options.epoch,
                    options.set ? std::optional(options.set->instead_of_mw) : std::nullopt,
                    follows(st) ? options.schedule->name() : "", options.dry_run);
  if (st.brake) st.journal.brake_set(true, "");
  if (st.pulled) st.journal.brake(true, true, st.cap_mw, st.policy->counted_mw(), {});
  if (options.parent) begin_node_parent(self, *options.parent);
  st.leased_mw = own_cap_of_now(self).cap_mw;
  st.counted_mw = st.policy->counted_mw();
}

}  // namespace

caf::result<msg<fbs::Ack>> answer_once_kept(budget_pointer self, const message_header& cause,
                                            std::string text, uint64_t order) {
  auto& st = self->state;
  const auto now = now_ns(*self);
  hear_keeper(self);  // a write that has ended makes room for the next one
  if (st.set_write && st.record.trouble(now)) st.set_is_new = true;  // it is tried again at once
  keep_record(st, now);
  if (is_set_kept(st)) {
    end_order(st, order, text);
    return ack_of(self, cause, text);
  }
  auto rp = self->make_response_promise<msg<fbs::Ack>>();
  st.answers.push_back(
      {rp, cause, std::move(text), now + ns_of(defaults::power_record_patience), order});
  hear_keeper(self);
  if (!st.answers.empty() && st.looks < 2) await_tick(self);  // beside the one of the decision
  return rp;
}

void show_budget(budget_pointer self) {
  const auto& st = self->state;
  const auto now = now_ns(*self);
  const auto drawn = drawn_by_all(st, now);
  publish(self, state_word(st, now), [&](fbs::BudgetStatusT& s) {
    s.budget_w = watts_of(own_mw(st));
    s.power_w = drawn.mw ? watts_of(*drawn.mw) : -1;
    s.source = drawn.source;
    s.counted_w = watts_of(st.policy->counted_mw());
    s.children = static_cast<uint32_t>(st.children.size());
    s.heard = 0;
    for (size_t i = 0; i < st.children.size(); ++i) s.heard += !st.policy->is_silent(i, now);
    s.epoch = st.options.epoch;
  });
}

error unknown_child(const budget_state& st, std::string_view name, bool proved) {
  std::vector<std::string_view> names;
  for (const auto& c : st.options.children) names.push_back(proved ? proof_of(c) : c.name);
  const auto near = nearest(name, names);
  const bool all = names.size() <= names_in_a_hint;
  names.resize(std::min(names.size(), names_in_a_hint));
  return {errc::not_found,
          fmt::format("{} has no child \"{}\"", st.options.name, printable(name, shown_of_name)),
          fmt::format("{}its children are {}{}",
                      near.empty() ? "" : fmt::format("did you mean {}? ", near),
                      fmt::join(names, ", "), all ? "" : " and others")};
}

bool follows(const budget_state& st) {
  return st.options.schedule && !st.set;
}

int64_t standing_mw(const budget_state& st, int64_t now_ns) {
  if (!follows(st)) return st.for_good_mw;
  return st.options.schedule->at_mw(now_ns - st.began_ns).value_or(st.for_good_mw);
}

void settle_budget(budget_state& st, int64_t now_ns) {
  const bool over = st.set_until_ns && now_ns >= *st.set_until_ns;
  if (st.set_until_ns && !over) return;
  st.set_until_ns.reset();
  const auto was_mw = std::exchange(st.cap_mw, standing_mw(st, now_ns));
  if (over)
    st.journal.set_ends(st.cap_mw, was_mw);
  else if (st.cap_mw != was_mw)
    st.journal.follows(st.cap_mw, was_mw, st.options.schedule->name());
}

void note_pulled(budget_state& st) {
  const bool was = std::exchange(st.pulled, is_pulled_after(st, st.policy->holds_work()));
  st.set_is_new |= was != st.pulled;
}

int64_t own_mw(const budget_state& st) {
  return st.parent ? std::min(st.cap_mw, st.leased_mw) : st.cap_mw;
}

bool in_thresholds(const budget_state& st) {
  return st.options.rules.mode == budget_mode::thresholds;
}

bool holds_all(const budget_state& st) {
  return st.brake || (st.parent && st.parent->lease.is_braked());
}

std::string brake_above(const budget_state& st) {
  if (!st.parent || !st.parent->lease.is_braked()) return "";
  return st.parent->brake_of.empty() ? name_of_parent(*st.parent) : st.parent->brake_of;
}

bool is_braked(const budget_state& st, size_t child) {
  return holds_all(st) || st.policy->is_braked(child);
}

budget_actor::behavior_type budget(budget_pointer self, const budget_options& options) {
  guard_mailbox(self);
  introduce(self, "budget");
  begin_budget(self, options);
  show_budget(self);
  await_tick(self);
  return {
      status_handler(self),
      [self](const msg<fbs::PowerReport>& m) { return hear_report(self, m); },
      [self](const msg<fbs::ReadPowerTree>& m) { return read_tree(self, m); },
      [self](const msg<fbs::SetPowerBudget>& m) { return set_budget(self, m); },
      [self](const msg<fbs::SetPowerBrake>& m) { return set_brake(self, m); },
      [self](const msg<fbs::FindGateway>& m) { return find_gateway(self, m); },
      [self](caf::tick_atom) { decide_if_due(self); },
  };
}

}  // namespace troupe::power
