// Heartbeats to the policy, its verdicts to the run.
#include "actors/power/pacer.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "actors/base/actor_log.hpp"
#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "gpu/controls/setting_policy.hpp"
#include "io/base/printable.hpp"
#include "io/config/job.hpp"
#include "messages/power_holds.hpp"
#include "messages/text.hpp"

namespace troupe::power {

fbs::PowerSource source_of(const job_pace_policy::totals& all) {
  return all.power_w < 0 ? fbs::PowerSource::unknown
         : all.modelled  ? fbs::PowerSource::modelled
                         : fbs::PowerSource::measured;
}

namespace {

/// The whole job, then its racks.
template <class F>
void for_each_part(pacer_state& st, F&& f) {
  f(static_cast<fed_part&>(st));
  for (auto& rack : st.racks) f(rack);
}

/// Those under a budget.
template <class F>
void for_each_parent(pacer_state& st, F&& f) {
  for_each_part(st, [&](fed_part& part) {
    if (part.parent) f(*part.parent);
  });
}

/// A person's budget is of the whole job.
void keep_to(pacer_pointer self, fed_part& part, double own_w) {
  if (!part.parent) return part.policy.set_budget(own_w);
  const auto cap_w = static_cast<double>(cap_of_now(self, part)) / 1000;
  part.policy.hold(why_held(*part.parent));  // PCR-3: a budget of 0 W is none
  part.policy.set_budget(own_w > 0 ? std::min(own_w, cap_w) : cap_w);
}

/// From now on the job keeps to what bounds it: a person's budget, what is granted, or both.
void keep_to(pacer_pointer self) {
  auto& st = self->state;
  keep_to(self, st, st.own_w);
  for (auto& rack : st.racks) keep_to(self, rack, 0);
  bool braked = false;
  for_each_parent(st, [&](const job_parent& p) { braked = braked || p.lease.is_braked(); });
  braked = braked && !st.dry_run;
  if (std::exchange(st.braked, braked) == braked) return;
  for_each_part(st, [&](fed_part& part) { part.policy.rest(braked, now_ns(*self)); });  // PCR-4
}

work_pace pace_in(const job_pace_policy::verdict& v) {
  return v.holds ? work_pace{0} : v.pace;
}

/// The part by which the job has its pace.
const fed_part& binding(const pacer_state& st) {
  if (st.binds == 0) return st;
  return st.racks[st.binds - 1];
}

/// PCR-8
void decide(pacer_state& st, int64_t now_ns) {
  size_t number = 0;
  for_each_part(st, [&](fed_part& part) {
    part.allows = part.policy.decide(now_ns);
    const bool is_less = pace_in(part.allows) < pace_in(st.decided);
    if (number == 0 || is_less) {
      st.decided = part.allows;
      st.binds = number;
    }
    ++number;
  });
  for_each_parent(st, [&](job_parent& p) { p.lease.decided(pace_in(st.decided)); });
}

/// What the whole job keeps to, in watts; 0: nothing bounds it.
double budget_w_of(const pacer_state& st) {
  if (st.racks.empty()) return st.policy.budget_w();
  double all_w = 0;
  for (const auto& rack : st.racks) all_w += rack.policy.budget_w();
  return st.own_w > 0 ? std::min(st.own_w, all_w) : all_w;
}

fbs::JobPowerT power_now(pacer_state& st, int64_t now_ns) {
  decide(st, now_ns);
  const auto all = st.policy.sum(now_ns);
  fbs::JobPowerT out;
  const auto told = st.dry_run ? work_pace{} : pace_in(st.decided);  // PCR-6
  out.pace_of_1024 = static_cast<uint32_t>(told.of_1024);
  if (!st.dry_run) out.reason = st.decided.why;
  out.brake = st.braked;
  out.power_w = all.power_w;
  out.energy_j = all.energy_j;
  out.source = source_of(all);
  return out;
}

void show_parent(const job_parent& l, int64_t now_ns, fbs::PacerStatusT& s) {
  s.parent = l.name.empty() ? l.options.named : l.name;
  s.cap_w = l.lease.was_leased() ? static_cast<double>(l.lease.cap_mw()) / 1000 : -1;
  s.lease_left_ms = static_cast<uint64_t>(l.lease.left_ns(now_ns) / ns_per_ms);
  s.parent_problem = l.problem;
  const auto ms_of = [&](size_t percent) {
    const auto ns = l.acted.percentile_ns(percent);
    return ns ? static_cast<double>(*ns) / ns_per_ms : -1;
  };
  s.actuation_p50_ms = ms_of(50);
  s.actuation_p99_ms = ms_of(99);
}

/// What changed the pace last, or would have.
std::string decided_in_words(const pacer_state& st) {
  const auto& policy = binding(st).policy;
  if (!st.dry_run) return policy.decided();
  if (st.decided.holds && st.decided.why.empty()) return "";
  auto what = st.decided.holds ? "to no steps, since " + st.decided.why : policy.decided();
  if (what.empty() && st.decided.pace < work_pace{})
    what = fmt::format("to {:.3g} % of full speed", 100 * st.decided.pace.share());
  return what.empty() ? "" : "in a dry run alone: " + what;
}

void show_racks(const pacer_state& st, int64_t now_ns, fbs::PacerStatusT& s) {
  for (const auto& rack : st.racks) {
    auto& row = *s.racks.emplace_back(std::make_unique<fbs::PacerRackT>());
    const auto& p = *rack.parent;
    row.parent = p.name.empty() ? p.options.named : p.name;
    row.nodes = rack.nodes;
    row.cap_w = p.lease.was_leased() ? watts_of(p.lease.cap_mw()) : -1;
    row.power_w = rack.policy.sum(now_ns).power_w;
    row.pace_percent = 100 * pace_in(rack.allows).share();
    row.lease_left_ms = static_cast<uint64_t>(p.lease.left_ns(now_ns) / ns_per_ms);
    row.problem = p.problem;
  }
}

/// Of several the one by which the job has its pace; else the first.
const job_parent* parent_to_show(const pacer_state& st) {
  if (const auto& by = binding(st).parent) return &*by;
  if (st.parent) return &*st.parent;
  return st.racks.empty() ? nullptr : &*st.racks.front().parent;
}

void show(pacer_pointer self, const fbs::JobPowerT& now) {
  const auto& st = self->state;
  const auto* parent = parent_to_show(st);
  const double budget_w = budget_w_of(st);
  const bool budgeted = budget_w > 0 || (parent != nullptr && parent->lease.was_leased());
  const auto all = st.policy.sum(now_ns(*self));
  publish(self, budgeted || parent != nullptr ? "keeping a budget" : "adding up",
          [&](fbs::PacerStatusT& s) {
            s.budget_w = budgeted ? budget_w : -1;
            s.power_w = now.power_w;
            s.source = now.source;
            s.idle_w = all.idle_w;
            s.full_w = all.full_w;
            s.pace_percent = 100 * work_pace{static_cast<int>(now.pace_of_1024)}.share();
            s.reason = now.reason;
            s.decided = decided_in_words(self->state);
            s.machines = static_cast<uint32_t>(all.machines);
            if (const auto& slack = self->state.slack) s.slack = slack->words();
            if (parent != nullptr) show_parent(*parent, now_ns(*self), s);
            show_racks(st, now_ns(*self), s);
          });
}

/// The first name is kept: names of work are few, and a budget may call itself anything.
uint16_t cap_counter(job_parent& above) {
  if (above.cap_counter == 0 && !above.name.empty())
    above.cap_counter = work_name(std::string(cap_counter_of) + printable(above.name));
  return above.cap_counter;
}

void note_counters(pacer_pointer self, const fbs::JobPowerT& now) {
  static const auto pace = work_name("pace %"), budget = work_name(budget_counter),
                    drawn = work_name("drawn W");
  const auto note = [&, at_ns = now_ns(*self)](uint16_t name, double value) {
    self->runtime().records.note(counter_note{name, self->stats().number(), at_ns, value});
  };
  if (now.power_w >= 0) note(drawn, now.power_w);
  for_each_parent(self->state, [&](job_parent& above) {
    if (!above.lease.was_leased()) return;
    if (const auto name = cap_counter(above); name != 0) note(name, watts_of(above.lease.cap_mw()));
  });
  const bool ramps = self->state.decided.ramps_to.has_value();
  const double budget_w = budget_w_of(self->state);
  if (budget_w <= 0 && !ramps) return;
  note(pace, 100 * work_pace{static_cast<int>(now.pace_of_1024)}.share());
  if (budget_w > 0) note(budget, budget_w);
}

/// PCR-5
void note_decision(pacer_pointer self) {
  auto& st = self->state;
  const auto at_ns = now_ns(*self);  // where it is not kept, too: in a replay
  if (!st.journal.is_kept()) return;
  pacer_decision d;
  d.pace = pace_in(st.decided);
  d.why = st.decided.holds ? st.decided.why : binding(st).policy.decided();
  d.ramps_to = st.decided.ramps_to;
  d.ramp_ns = st.decided.ramp_ns;
  d.own_w = st.own_w;
  d.budget_w = budget_w_of(st);
  d.drawn = st.policy.sum(at_ns);
  if (const auto* p = parent_to_show(st))
    d.lease = pacer_decision::leased{p->name.empty() ? p->options.named : p->name, p->lease.order(),
                                     watts_of(p->lease.cap_mw()), p->lease.left_ns(at_ns),
                                     p->lease.hold()};
  st.journal.decided(d);
}

bool same(const fbs::JobPowerT& a, const fbs::JobPowerT& b) {
  return a.pace_of_1024 == b.pace_of_1024 && a.reason == b.reason && a.power_w == b.power_w &&
         a.energy_j == b.energy_j && a.source == b.source && a.brake == b.brake;
}

/// PCR-7
uint64_t offset_to_tell(pacer_state& st, const fbs::JobPowerT& now) {
  if (!st.run) return 0;
  const auto offset_ns = st.phase.take();
  return now.pace_of_1024 > 0 && !now.brake ? phase_us_of(offset_ns) : 0;
}

/// PCR-1, PCR-2.
void tell(pacer_pointer self) {
  auto& st = self->state;
  keep_to(self);
  for_each_parent(st, [&](job_parent& p) { save_if_shed(self, p); });
  auto now = power_now(st, now_ns(*self));
  now.start_offset_us = offset_to_tell(st, now);
  note_decision(self);
  if (now.start_offset_us > 0 && st.parent)
    st.journal.shifted(now.start_offset_us, st.parent->name);
  if (st.held) hold_machine(self, now);
  if (!st.held && !st.dry_run)
    for_each_parent(st, [&](job_parent& p) { note_actuation(p, now_ns(*self)); });
  const bool news = st.run && (now.start_offset_us > 0 || !(st.told && same(*st.told, now)));
  if (news || parent_to_show(st) != nullptr)
    show(self, now);  // what is left of a lease changes all the time
  if (!news) return;
  now.number = ++st.words;
  for_each_parent(st, [&](job_parent& p) { p.lease.told(now.number); });
  self->send(st.run, make_msg<fbs::JobPower>(context_of(*self, self->epoch()), now));
  note_counters(self, now);
  st.told = std::move(now);
}

/// The head's processor time is the job's, too, and in no node's heartbeat (JPP-8).
void count_own_time(pacer_pointer self) {
  auto& st = self->state;
  if (!st.processor_time) return;
  const auto used = st.processor_time();
  const double process_s = number_as_recorded(used.process_s);
  const double machine_s = number_as_recorded(used.machine_s);
  for_each_part(st, [&](fed_part& part) {
    part.policy.hear_head(st.machine, process_s, machine_s, now_ns(*self));
  });
}

void hear(pacer_pointer self, const msg<fbs::Heartbeat>& m) {
  const auto* vitals = m->vitals();
  if (vitals == nullptr) return;
  const auto now = now_ns(*self);
  power_reading said;
  std::string machine;
  if (const auto* p = vitals->power()) {
    machine = text_of(p->machine());
    constexpr uint64_t a_day_ms = 86'400'000;
    said = {p->power_w(),
            p->energy_j(),
            p->source() != fbs::PowerSource::measured,
            now - static_cast<int64_t>(std::min(p->age_ms(), a_day_ms)) * ns_per_ms,
            static_cast<int64_t>(p->interval_ms()) * ns_per_ms,
            self->state.moves_limits ? -1 : p->limit_w(),
            p->process_busy(),
            p->machine_busy()};
  }
  const auto node = text_of(vitals->node());
  for_each_part(self->state, [&](fed_part& part) {
    if (part.feeds(node)) part.policy.hear(node, machine, said, now);
  });
  if (auto& slack = self->state.slack)
    slack->hear(node, machine, said.energy_j, said.modelled, said.read_ns);
}

void take(pacer_pointer self, const msg<fbs::PaceTaken>& m) {
  auto& st = self->state;
  st.run = caf::actor_cast<run_actor>(self->current_sender());
  const auto now = now_ns(*self);
  const auto epoch = m.header().epoch;
  st.own_w = m->budget_w();
  st.paused = m->paused();
  st.brake_armed = m->brake_armed();
  keep_to(self);
  const bool are_new = std::exchange(st.run_epoch, epoch) != epoch;
  const work_pace pace{
      static_cast<int>(std::min(m->pace_of_1024(), static_cast<uint32_t>(work_pace::whole)))};
  const auto late_ns = phase_ns_of(m->start_offset_us());
  for_each_part(st, [&](fed_part& part) {
    if (are_new) part.policy.ranks_changed(now);
    part.policy.steps(m->step(), pace, now);
    if (m->step() > 0 && late_ns > 0) part.policy.begins_late();
  });
  st.phase.steps(m->step(), epoch, late_ns, now);
  st.step_pace = m->step() > 0 ? static_cast<uint32_t>(pace.of_1024) : 0;
  for_each_parent(st, [&](job_parent& p) {
    p.lease.steps(m->step(), pace, m->follows());
    p.stepped |= m->step() > 0;
  });
  tell(self);
}

/// From a run of its process: what is in it is bounded by the job.
void take_slack(pacer_pointer self, const msg<fbs::StepMade>& m) {
  auto& st = self->state;
  if (!st.slack) return;
  const auto before = st.slack->words();
  auto clocks = st.slack->made(m.unpack(), m.header().epoch, now_ns(*self));
  if (clocks)
    self->send(caf::actor_cast<run_actor>(self->current_sender()),
               make_msg<fbs::JobClocks>(context_of(*self, self->epoch()), *clocks));
  if (clocks || before != st.slack->words()) show(self, st.told ? *st.told : fbs::JobPowerT());
}

}  // namespace

pacer_options pacer_options_of(const config::power_section& said, uint32_t epoch) {
  pacer_options out{said.budget_w, epoch};
  out.control = said.actuators();
  out.ramp_w_s = said.ramp_w_s;
  out.dry_run = said.dry_run;
  return out;
}

namespace {

/// As they are named; empty: none is above.
std::string parents_in_words(const pacer_options& options) {
  std::string out = options.parent ? options.parent->named : "";
  for (const auto& rack : options.racks) out += (out.empty() ? "" : ", ") + rack.parent.named;
  return out;
}

/// All of them are there before the first is asked for anything.
void begin_parents(pacer_pointer self, const pacer_options& options) {
  auto& st = self->state;
  const auto tells = [self] { tell(self); };
  self->set_down_handler([self](const caf::down_msg& m) {
    for_each_parent(self->state, [&](job_parent& p) { parent_down(self, p, m); });
  });
  if (options.parent) begin_job_parent(self, st, *options.parent, tells);
  for (size_t i = 0; i < st.racks.size(); ++i)
    begin_job_parent(self, st.racks[i], options.racks[i].parent, tells);
  for_each_parent(st, [&](job_parent& p) { keep_in_touch(self, p); });
}

}  // namespace

pacer_actor::behavior_type pacer(pacer_pointer self, const pacer_options& options) {
  guard_mailbox(self);
  introduce(self, "pacer", options.epoch);
  if (options.recorded) options.recorded();
  auto& st = self->state;
  st.own_w = options.budget_w;
  for (const auto& rack : options.racks) st.racks.emplace_back().nodes = rack.nodes;
  // Which of them a rank has taken is not told. What is safe for one is for all: a step that is
  // slower than by the root counts as one that has stood, and limits that meters say bound nothing.
  for (const auto& word : options.control) {
    const auto kind = gpu::controls::setting_kind_named(word);
    if (!kind) continue;
    for_each_part(st, [](fed_part& part) { part.policy.slows_by_root(true); });
    st.moves_limits |= gpu::controls::is_limit(*kind);
  }
  st.machine = options.machine;
  st.processor_time = options.processor_time;
  st.journal = pacer_journal(options.journal);
  st.dry_run = options.dry_run;
  st.policy.set_ramp(options.ramp_w_s);
  st.journal.begins(options.epoch, st.own_w, parents_in_words(options), st.dry_run);
  if (options.held) st.held.emplace(*options.held);
  if (options.slack) st.slack.emplace(options.slack, options.profiles);
  st.policy.watches_others(st.held.has_value());
  begin_parents(self, options);
  if (st.held) st.parent->lease.begin_with_share(st.held->of.share_mw);
  keep_to(self);
  show(self, power_now(st, now_ns(*self)));
  self->delayed_send(self, defaults::pacer_period, caf::tick_atom_v);
  return {
      status_handler(self),
      [self](const msg<fbs::Heartbeat>& m) { hear(self, m); },
      [self](const msg<fbs::PaceTaken>& m) { take(self, m); },
      [self](const msg<fbs::StepMade>& m) { take_slack(self, m); },
      [self](caf::tick_atom) {
        count_own_time(self);
        if (self->state.held) look_at_machine(self);
        tell(self);
        for_each_parent(self->state, [&](job_parent& p) { keep_in_touch(self, p); });
        self->delayed_send(self, defaults::pacer_period, caf::tick_atom_v);
      },
  };
}

}  // namespace troupe::power
