// Between the pacer and the policy of the job.
#include "actors/train/run_power.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/base/gather.hpp"
#include "actors/train/op_gate.hpp"
#include "messages/actors.hpp"
#include "messages/text.hpp"

namespace troupe::train {

bool may_brake(const run_state& st) {
  return st.job.wanted().power.has_parent();
}

namespace {

/// What a person has set counts at once: the step that follows is to keep it.
double budget_of(const run_state& st) {
  return st.job.wanted().power.budget_w;
}

/// By a person, or by a power budget above the job.
bool is_budgeted(const run_state& st) {
  return st.job.wanted().power.is_budgeted();
}

bool is_paused(const run_state& st) {
  return st.job.pauses().contains(pause_cause::person);
}

/// For the budget above it, which then gives others what the job does not draw.
bool is_pause_news(const run_state& st) {
  return may_brake(st) && is_paused(st) != st.power.told_paused;
}

void send_pace(run_pointer self, uint64_t step) {
  auto& st = self->state;
  st.power.told_budget_w = budget_of(st);
  st.power.told_step = step;
  if (step == 0) {
    st.power.old_end_by_ns.reset();
    st.power.start_offset_us = 0;
  }
  st.power.told_paused = is_paused(st);
  st.power.told_armed = st.power.brake_armed;
  st.power.told_word = step > 0 ? st.power.step_word : st.power.word;
  self->send(st.record.pacer,
             make_msg<fbs::PaceTaken>(context_of(*self, st.record.epoch), [&](auto& t) {
               t.step = step;
               const auto pace = step > 0 ? st.power.step_pace : st.power.pace;
               t.pace_of_1024 = static_cast<uint32_t>(pace.of_1024);
               t.budget_w = st.power.told_budget_w;
               t.follows = st.power.told_word;
               t.paused = st.power.told_paused;
               t.brake_armed = st.power.told_armed;
               t.start_offset_us = step > 0 ? st.power.step_offset_us : 0;
             }));
}

/// All stages have answered that order, or one has not. While a step is made that is told at once:
/// the next one may be far.
void brake_answered(run_pointer self, uint64_t order, bool by_all) {
  auto& p = self->state.power;
  if (p.brake_orders != order) return;
  p.brake_asked = false;
  p.brake_armed = by_all;
  if (p.told_step > 0 && p.told_armed != by_all) send_pace(self, p.told_step);
}

/// Whoever does not answer is asked again with the pacer's next word.
void order_brake(run_pointer self) {
  auto& p = self->state.power;
  const auto order = ++p.brake_orders;
  p.brake_armed = false;
  p.brake_asked = true;
  const auto m = make_msg<fbs::Brake>(context_of(*self, self->state.record.epoch),
                                      [&](auto& b) { b.on = p.brakes; });
  gather<fbs::Ack>(
      self, self->state.crew.stages,
      [](size_t rank) {
        return awaited{fmt::format("stage/{}", rank), "the brake"};
      },
      [&](size_t) { return std::tuple(m); },
      [self, order](const auto&) { brake_answered(self, order, true); },
      [self, order](size_t, const error&) { brake_answered(self, order, false); });
}

}  // namespace

void arm_brake(run_pointer self) {
  const auto& st = self->state;
  if (!st.record.pacer || !may_brake(st)) return;
  if (!st.crew.stages.empty()) return order_brake(self);
  ++self->state.power.brake_orders;
  self->state.power.brake_asked = self->state.power.brake_armed = false;
}

void begin_power(run_pointer self) {
  auto& st = self->state;
  if (!st.record.pacer) return;
  send_pace(self, 0);
  if (!is_budgeted(st)) return;
  st.power.pace = work_pace_policy::least_pace;
  st.power.holds = true;
  hear(self, heard::pause{0, pause_cause::power, "the power budget"});
}

namespace {

/// It is of the next step alone, and void where none may begin, or none is made: it would shift a
/// step of another beat. Only ranks that may be braked are waited for as long as that wants
/// (paced_patience.hpp).
void take_offset(run_state& st, const fbs::JobPower& m) {
  auto& p = st.power;
  constexpr uint64_t latest_us = op_gate::latest_start_ns / 1000;
  if (m.start_offset_us() > 0) p.start_offset_us = std::min(m.start_offset_us(), latest_us);
  const bool may_begin = m.pace_of_1024() > 0 && !m.brake() && p.told_step > 0;
  if (!may_begin || !may_brake(st)) p.start_offset_us = 0;
}

std::vector<std::string> take_word(run_pointer self, const fbs::JobPower& m) {
  auto& p = self->state.power;
  take_offset(self->state, m);
  p.power_w = m.power_w();
  p.energy_j = m.energy_j();
  p.source = m.source();
  const auto pace = static_cast<int>(std::min<uint32_t>(m.pace_of_1024(), work_pace::whole));
  const bool holds = pace == 0;
  if (!holds) p.pace = std::max(work_pace{pace}, work_pace_policy::least_pace);
  std::vector<std::string> out;
  auto reason = text_of(m.reason());
  if (holds && !reason.empty() && p.reason.empty()) out.push_back("waits for power: " + reason);
  if (!holds && !p.reason.empty()) out.emplace_back("goes on: its power budget has room");
  p.reason = holds ? std::move(reason) : "";
  if (std::exchange(p.holds, holds) == holds) return out;
  if (holds)
    hear(self, heard::pause{0, pause_cause::power, p.reason});
  else
    hear(self, heard::resume{0, pause_cause::power});
  return out;
}

/// The brake is on and a step is being made, or its validation.
bool is_held(const run_state& st) {
  const auto s = st.job.state();
  return st.power.brakes && (s == job_state::stepping || s == job_state::validating);
}

void end_without_step(run_pointer self) {
  hear(self, heard::ask_failed{{errc::cancelled, self->state.power.stop->reason}});
}

/// A stop that has come may be held by the brake now.
std::vector<std::string> look_at_stop(run_pointer self) {
  auto& st = self->state;
  if (!st.power.stop || !is_held(st)) return {};
  if (!st.power.stop->saves) {
    end_without_step(self);
    return {};
  }
  if (std::exchange(st.power.stop_waits, true)) return {};
  return {
      "the brake of its power budget holds the job: it saves and ends once that lets it go "
      "on; stopped again it ends at once, and steps since its newest checkpoint are lost"};
}

/// While no step is made nothing else says that none will follow a greater pace of before.
void acknowledge(run_pointer self, bool is_less) {
  const auto& st = self->state;
  const bool is_known = st.power.told_step > 0 || st.power.told_word >= st.power.word;
  if (is_less && !is_known && may_brake(st)) send_pace(self, 0);
}

}  // namespace

std::vector<std::string> hear_power(run_pointer self, const fbs::JobPower& m) {
  auto& p = self->state.power;
  const bool is_news = std::exchange(p.brakes, m.brake()) != m.brake();
  if (is_news || (!p.brake_armed && !p.brake_asked)) arm_brake(self);
  const bool is_less = m.pace_of_1024() < std::exchange(p.word_of_1024, m.pace_of_1024());
  p.word = m.number();
  auto out = take_word(self, m);
  acknowledge(self, is_less);
  if (is_news)
    for (auto& sentence : look_at_stop(self)) out.push_back(std::move(sentence));
  return out;
}

void tell_pacer(run_pointer self, uint64_t step) {
  const auto& st = self->state;
  const bool budgeted = is_budgeted(st) || st.power.told_budget_w > 0;
  if (!st.record.pacer || !budgeted) return;
  if (step > 0 || st.power.told_step > 0) send_pace(self, step);
}

void tell_ranks_change(run_pointer self) {
  auto& st = self->state;
  if (!st.record.pacer || !is_budgeted(st)) return;
  send_pace(self, st.power.told_step);
  if (st.power.told_step == 0) return;
  const std::chrono::nanoseconds patience =
      self->timeouts().of(contract_of<node_actor, fbs::Suspend>());
  st.power.old_end_by_ns = now_ns(*self) + patience.count();
  self->delayed_send(self, patience, caf::tick_atom_v);  // the pacer may have no word till then
}

void end_old_ranks(run_pointer self) {
  const auto& by = self->state.power.old_end_by_ns;
  if (by && now_ns(*self) >= *by) tell_pacer(self, 0);
}

void begin_paced(run_pointer self, uint64_t step) {
  auto& p = self->state.power;
  p.step_pace = p.pace;
  p.step_word = p.word;
  p.step_offset_us = std::exchange(p.start_offset_us, 0);
  tell_pacer(self, step);
}

void tell_person(run_pointer self) {
  const auto& st = self->state;
  const bool is_news = budget_of(st) != st.power.told_budget_w || is_pause_news(st);
  if (st.record.pacer && is_news) send_pace(self, st.power.told_step);
}

void note_waits(run_state& st, int64_t now_ns) {
  auto& p = st.power;
  const bool waits =
      st.job.state() == job_state::paused && st.job.pauses() == std::set{pause_cause::power};
  if (waits && !p.waits_since_ns) p.waits_since_ns = now_ns;
  if (waits || !p.waits_since_ns) return;
  p.wait_ms += static_cast<double>(now_ns - *std::exchange(p.waits_since_ns, std::nullopt)) / 1e6;
}

void note_held(run_state& st, double longest_ms) {
  st.power.step_wait_ms = longest_ms;
  st.power.wait_ms += longest_ms;
}

std::vector<std::string> hear_stop(run_pointer self, const heard::stop& how) {
  auto& st = self->state;
  hear(self, how);
  st.power.stop = how;
  if (!st.power.stop_waits || !is_held(st)) return look_at_stop(self);
  end_without_step(self);
  return {};
}

void put_power(const run_state& st, fbs::StepReportT& into) {
  into.power_w = st.power.power_w;
  into.power_source = st.power.source;
  into.energy_j = st.power.energy_j;
  into.pace_of_1024 = static_cast<uint32_t>(st.power.step_pace.of_1024);
  into.power_wait_ms = st.power.step_wait_ms;
}

void put_power(const run_state& st, int64_t now_ns, fbs::RunStatusT& into) {
  into.power_w = st.power.power_w;
  into.power_source = st.power.source;
  into.energy_j = st.power.energy_j;
  into.pace_percent = st.power.holds ? 0 : 100 * st.power.pace.share();
  const auto waits_ns = now_ns - st.power.waits_since_ns.value_or(now_ns);
  into.power_wait_ms = st.power.wait_ms + static_cast<double>(waits_ns) / 1e6;
}

}  // namespace troupe::train
