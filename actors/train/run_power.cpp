// Between the pacer and the policy of the job.
#include "actors/train/run_power.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "messages/text.hpp"

namespace troupe::train {

namespace {

double budget_of(const run_state& st) {
  return st.job.plan().job.power.budget_w;
}

void send_pace(run_pointer self, uint64_t step) {
  auto& st = self->state;
  st.power.told_budget_w = budget_of(st);
  st.power.told_steps = step > 0;
  self->send(st.record.pacer,
             make_msg<fbs::PaceTaken>(context_of(*self, st.record.epoch), [&](auto& t) {
               t.step = step;
               t.pace_of_1024 = static_cast<uint32_t>(st.power.pace.of_1024);
               t.budget_w = st.power.told_budget_w;
             }));
}

}  // namespace

void begin_power(run_pointer self) {
  auto& st = self->state;
  if (!st.record.pacer) return;
  send_pace(self, 0);
  if (budget_of(st) <= 0) return;
  st.power.pace = work_pace_policy::least_pace;
  st.power.holds = true;
  hear(self, heard::pause{0, pause_cause::power, "the power budget"});
}

std::vector<std::string> hear_power(run_pointer self, const fbs::JobPower& m) {
  auto& p = self->state.power;
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

void tell_pacer(run_pointer self, uint64_t step) {
  const auto& st = self->state;
  const bool budgeted = budget_of(st) > 0 || st.power.told_budget_w > 0;
  if (!st.record.pacer || !budgeted) return;
  if (step > 0 || st.power.told_steps) send_pace(self, step);
}

void begin_paced(run_pointer self, uint64_t step) {
  self->state.power.step_pace = self->state.power.pace;
  tell_pacer(self, step);
}

void tell_budget(run_pointer self) {
  const auto& st = self->state;
  if (st.record.pacer && budget_of(st) != st.power.told_budget_w)
    send_pace(self, st.power.told_steps ? st.job.step() + 1 : 0);
}

void note_held(run_state& st, double longest_ms) {
  st.power.step_wait_ms = longest_ms;
  st.power.wait_ms += longest_ms;
}

void put_power(const run_state& st, fbs::StepReportT& into) {
  into.power_w = st.power.power_w;
  into.power_source = st.power.source;
  into.energy_j = st.power.energy_j;
  into.pace_of_1024 = static_cast<uint32_t>(st.power.step_pace.of_1024);
  into.power_wait_ms = st.power.step_wait_ms;
}

void put_power(const run_state& st, fbs::RunStatusT& into) {
  into.power_w = st.power.power_w;
  into.power_source = st.power.source;
  into.energy_j = st.power.energy_j;
  into.pace_percent = st.power.holds ? 0 : 100 * st.power.pace.share();
  into.power_wait_ms = st.power.wait_ms;
}

}  // namespace troupe::train
