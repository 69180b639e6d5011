// Of a job: what is reported, and what answers come to.
#include "actors/power/job_parent.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/power/budget.hpp"
#include "actors/power/fed_part.hpp"
#include "actors/power/pacer.hpp"
#include "io/config/power_tree.hpp"
#include "messages/text.hpp"

namespace troupe::power {

namespace {

void say(pacer_pointer self, const job_parent& p, std::string text) {
  if (const auto& held = self->state.held; held && held->of.say) return held->of.say(text);
  const auto& to = p.options.reporter;
  if (!to) return;
  self->send(to, make_msg<fbs::Notice>(context_of(*self, self->epoch()), [&](auto& n) {
               n.level = fbs::NoticeLevel::warning;
               n.text = std::move(text);
             }));
}

int64_t mw_or_none(double w) {
  return w < 0 ? -1 : std::llround(w * 1000);
}

/// PCR-8: at what pace the other parts would have the job.
train::work_pace pace_of_others(const pacer_state& st, const fed_part& part) {
  train::work_pace out;
  const auto take = [&](const fed_part& other) {
    if (&other == &part) return;
    out = std::min(out, other.allows.holds ? train::work_pace{0} : other.allows.pace);
  };
  take(st);
  for (const auto& rack : st.racks) take(rack);
  return out;
}

/// What it would draw without the cap of the budget above it, in milliwatts; -1: it is not known.
/// While a person has it paused others may have what it does not draw.
int64_t wish_of(const pacer_state& st, const fed_part& part, const job_pace_policy::totals& all) {
  if (st.paused && all.power_w >= 0) return mw_or_none(all.power_w);
  if (!st.racks.empty()) return mw_or_none(drawn_at_w(all, wished_speed(pace_of_others(st, part))));
  const double full_w = all.full_w >= 0 ? all.full_w : all.limit_w;
  if (st.own_w <= 0) return mw_or_none(full_w);
  return mw_or_none(full_w < 0 ? st.own_w : std::min(full_w, st.own_w));
}

/// Of a step whose start is held back still, the one before.
void tell_beat(const step_beat& beat, int64_t now_ns, fbs::PowerReportT& into) {
  const auto age_ns = now_ns - beat.began_ns;
  into.step_us = phase_us_of(beat.period_ns);
  into.step_age_us = phase_us_of(age_ns < 0 ? age_ns + beat.period_ns : age_ns);
}

/// SPH-2; the clock that says when the report was sent is the job's own.
void hear_offset(pacer_state& st, const fbs::PowerGrant& g, int64_t now_ns) {
  if (g.start_offset_us() == 0 || st.held || st.dry_run) return;
  const phase_order said{g.offset_number(), phase_ns_of(g.start_offset_us())};
  st.phase.hear(g.offset_epoch(), said, g.answers_sent_ns(), now_ns);
}

fbs::PowerReportT report_of(pacer_pointer self, const fed_part& part) {
  const auto& st = self->state;
  const auto now = now_ns(*self);
  auto all = part.policy.sum(now);
  if (all.is_stale) all.power_w = all.mean_w = -1;  // what it drew once accuses nobody now
  const auto drawn_mw = mw_or_none(all.mean_w);     // a pace is kept by the mean of whole steps
  auto out = message_of(part.parent->lease.report(
      now, drawn_mw < 0 ? std::nullopt : std::optional(drawn_mw), wish_of(st, part, all)));
  out.source = source_of(all);
  const bool stands = part.parent->lease.is_braked() && !st.held && !st.dry_run;  // MHD-2
  out.pace_of_1024 = stands ? 0 : st.step_pace;
  if (auto& held = self->state.held) {  // MHD-6
    held->goes_told = held->goes;
    const bool is_unheld = held->is_unread_said && !held->has_begun;  // MHD-2
    if (held->goes || is_unheld) out.in_force_mw = beyond_mw;
  }
  if (st.dry_run) out.in_force_mw = beyond_mw;                                            // PCR-6
  if (const auto beat = st.phase.beat(now); beat && !stands && !st.dry_run && st.racks.empty())
    tell_beat(*beat, now, out);
  out.brake_armed = st.dry_run ? false : st.held ? st.held->is_all_set : st.brake_armed;  // MHD-5
  if (const auto p99_ns = part.parent->acted.percentile_ns(99))
    out.actuation_ms = (*p99_ns + ns_per_ms - 1) / ns_per_ms;
  for (const auto& machine : part.policy.machines()) {
    if (out.machines.size() == config::most_power_children) break;
    out.machines.push_back(machine);
  }
  return out;
}

/// Of a number in a message: what is no power is none.
int64_t power_or_none(int64_t mw) {
  return mw < 0 || mw > beyond_mw ? -1 : mw;
}

status take_answer(pacer_pointer self, fed_part& part, const fbs::PowerGrant& g) {
  auto& p = *part.parent;
  const auto verdict = p.lease.hear(answer_in(g), now_ns(*self));
  TROUPE_CHECK(must_fit(verdict, "this job"));
  if (const auto& held = self->state.held; held && held->goes_told && held->of.counted)
    held->of.counted();
  const auto whose = text_of(g.brake_of());
  p.brake_of = tls::is_name(whose) ? whose : "";
  p.needs_mw = power_or_none(g.floor_mw());
  p.free_mw = power_or_none(g.free_mw());
  part.policy.set_shared(shared_in(g), now_ns(*self));
  if (self->state.racks.empty()) hear_offset(self->state, g, now_ns(*self));
  return {};
}

/// JLP-4
void take_refusal(job_parent& p, const error& why) {
  if (why.is(process_superseded)) p.lease.refused(lease_hold::replaced);
  if (why.code == errc::not_found) p.lease.refused(lease_hold::no_child);
}

/// ": needs 900 W, 400 W free in row0"; empty where that is not why.
std::string want_in_words(const job_parent& p) {
  if (p.free_mw < 0 || p.free_mw >= p.needs_mw) return "";
  return fmt::format(": needs {:.4g} W, {:.4g} W free in {}", watts_of(p.needs_mw),
                     watts_of(p.free_mw), p.name);
}

/// The budget whose brake is on: the one above the job, or one above that.
std::string brake_in_words(const job_parent& p) {
  if (p.brake_of.empty() || p.brake_of == p.name) return parent_in_words(p);
  return fmt::format("the power budget {}, above {},", p.brake_of, p.name);
}

}  // namespace

void begin_job_parent(pacer_pointer self, fed_part& part, const parent_options& options,
                      std::function<void()> changed) {
  auto& p = part.parent.emplace(options);
  p.report = [self, &part] { return report_of(self, part); };
  p.heard = [self, &part](const fbs::PowerGrant& g) { return take_answer(self, part, g); };
  p.refused = [&p](const error& why) { take_refusal(p, why); };
  p.say = [self, &p](std::string text) { say(self, p, std::move(text)); };
  p.changed = std::move(changed);
  begin_link(self, p);
}

int64_t cap_of_now(pacer_pointer self, fed_part& part) {
  auto& p = *part.parent;
  const auto now = now_ns(*self);
  const auto cap_mw = p.lease.tick(now);
  const bool lapsed = p.lease.was_leased() && !p.lease.is_leased(now);
  const bool told = std::exchange(p.told_lapse, lapsed) == lapsed;  // PPL-3
  const auto hold = p.lease.hold();
  const bool refused = hold == lease_hold::replaced || hold == lease_hold::no_child;
  if (told || self->state.dry_run || (lapsed && refused))
    return cap_mw;  // JLP-4: it keeps to nothing that it has not
  const auto w = static_cast<double>(cap_mw) / 1000;
  const auto* who = self->state.held     ? "the machine"
                    : part.nodes.empty() ? "from its next step on the job"
                                         : "from its next step on that part of the job";
  say(self, p,
      lapsed ? fmt::format("the lease of {} has lapsed: {} keeps to {:.4g} W, until it is "
                           "granted another",
                           parent_in_words(p), who, w)
             : fmt::format("{} grants again: {:.4g} W", parent_in_words(p), w));
  return cap_mw;
}

void note_actuation(job_parent& p, int64_t now_ns) {
  const auto in_force_mw = p.lease.in_force_mw();
  if (in_force_mw > p.lease.cap_mw()) {
    if (!p.above_since_ns) p.above_since_ns = now_ns;
    p.above_mw = in_force_mw;
  } else if (const auto since_ns = std::exchange(p.above_since_ns, std::nullopt)) {
    if (in_force_mw < p.above_mw) p.acted.add(now_ns - *since_ns);
  }
}

void save_if_shed(pacer_pointer self, job_parent& p) {
  const bool shed = p.lease.hold() == lease_hold::shed;
  if (std::exchange(p.shed, shed) == shed || !shed || !p.stepped) return;
  if (self->state.dry_run) return;  // PCR-6
  const auto m = make_msg<fbs::CheckpointNow>(context_of(*self, 0), [&](auto& asked) {
    asked.reason = parent_in_words(p) + " wants the work paused";
  });
  request(self, self->state.run, m)
      .then([](const msg<fbs::Ack>&) {},
            [self, &p](const caf::error& e) {
              say(self, p,
                  "no checkpoint before the pause that the power budget wants: " +
                      from_caf(e).message);
            });
}

std::string why_held(const job_parent& p) {
  switch (p.lease.hold()) {
    case lease_hold::none:
      return "";
    case lease_hold::replaced:
      return fmt::format("{} under {}", replaced_reason, parent_in_words(p));
    case lease_hold::no_child:
      return parent_in_words(p) + " knows no job of this name: " + p.problem;
    case lease_hold::no_lease:
      return p.address.empty() ? "no power budget is found: " + p.problem
             : p.problem.empty()
                 ? fmt::format("no lease yet from {}{}", parent_place_in_words(p), want_in_words(p))
                 : fmt::format("no lease yet from {}: {}", parent_place_in_words(p), p.problem);
    case lease_hold::no_watts:
      return parent_in_words(p) + " grants no watts now" + want_in_words(p);
    case lease_hold::shed:
      return parent_in_words(p) + " wants the work paused" + want_in_words(p);
    case lease_hold::brake:
      return brake_in_words(p) + " holds all work by its brake";
  }
  return "";
}

}  // namespace troupe::power
