// Readings to the policy, its verdicts to settings.
#include "actors/power/machine_hold.hpp"

#include <algorithm>
#include <utility>

#include "actors/base/ask.hpp"
#include "actors/power/pacer.hpp"
#include "actors/power/readings.hpp"
#include "messages/text.hpp"

namespace troupe::power {

namespace {

void hear_meter(pacer_pointer self, const fbs::MeterReadingsT& r) {
  auto& st = self->state;
  power_reading said{r.power_w,
                     r.energy_j,
                     r.source != fbs::PowerSource::measured,
                     r.at_ns,
                     static_cast<int64_t>(r.interval_ms) * ns_per_ms,
                     st.moves_limits ? -1 : limit_of(r.devices),
                     r.process_busy,
                     r.machine_busy};
  if (r.at_ns == 0) said.power_w = -1;  // it has read nothing yet
  st.policy.hear(st.held->of.node, st.machine, said, now_ns(*self));
}

/// MHD-2, MHD-3, MHD-4: what is in force then.
work_pace set_pace(machine_hold& m, work_pace wanted) {
  m.judged = work_pace{};
  m.is_all_set = false;
  if (!m.of.set) return work_pace{};
  bool is_any_set = false;
  const auto done = m.of.set(wanted, is_any_set);
  if (is_any_set) m.judged = wanted;
  m.is_all_set = done && is_any_set;  // MHD-5
  auto problem = done ? std::string() : done.error().message;
  if (!problem.empty() && problem != m.problem && m.of.say) m.of.say(problem);
  m.problem = std::move(problem);
  return m.is_all_set ? wanted : work_pace{};
}

/// MHD-1: whether it is held from now on, if what it draws is known.
bool may_begin(pacer_state& st) {
  auto& m = *st.held;
  const auto& lease = st.parent->lease;
  const auto share_mw = lease.begun_with_mw();
  if (!share_mw) return false;
  const bool is_started = m.looks >= start_looks;
  const bool is_granted = lease.cap_mw() > *share_mw || (is_started && lease.was_leased());
  m.is_granted = m.is_granted || is_granted;
  const bool is_first = m.of.share_mw.has_value() && m.of.found == work_pace{};
  return m.is_granted || is_first || is_started || lease.is_braked();
}

/// Whether what the machine draws is known. Where a meter has had its time and says nothing, a
/// person is told, once, that it stays as it was found. MHD-1
bool is_read(pacer_state& st, const fbs::JobPowerT& decided, int64_t now_ns) {
  auto& m = *st.held;
  if (st.policy.sum(now_ns).power_w >= 0) return true;
  const bool is_overdue = st.parent->lease.hold() == lease_hold::none && !decided.reason.empty();
  if (is_overdue && !std::exchange(m.is_unread_said, true) && !m.has_begun && m.of.say)
    m.of.say(
        "nothing says what this machine draws, so it is not held, and stays as it was found: "
        "--model-idle-w and --model-core-w say it where no meter does");
  return false;
}

}  // namespace

void look_at_machine(pacer_pointer self) {
  auto& st = self->state;
  request(self, st.held->of.meter,
          make_msg<fbs::ReadMeters>(context_of(*self, self->epoch()), [](auto&) {}))
      .then([self](const msg<fbs::MeterReadings>& r) { hear_meter(self, r.unpack()); },
            [](const caf::error&) {});  // a meter that is silent counts by JPP-3
  ++st.held->looks;
  if (st.held->of.is_to_go && !st.held->goes && st.held->of.is_to_go()) {  // MHD-6
    st.held->goes = true;
    st.parent->next_ns = std::min(st.parent->next_ns, now_ns(*self));
  }
  st.policy.steps(st.held->looks, st.held->judged, now_ns(*self));
}

void hold_machine(pacer_pointer self, const fbs::JobPowerT& decided) {
  auto& st = self->state;
  auto& m = *st.held;
  const work_pace pace{static_cast<int>(decided.pace_of_1024)};
  const bool is_known = is_read(st, decided, now_ns(*self));
  m.has_begun = (may_begin(st) && is_known) || m.has_begun;
  auto wanted = pace.of_1024 > 0 ? pace : work_pace_policy::least_pace;
  if (!m.is_granted) wanted = std::min(wanted, m.of.found);  // PWR-5
  st.parent->lease.told(++st.words);
  const bool holds = m.has_begun || st.parent->lease.is_braked();  // the least needs no reading
  const auto was = m.in_force;
  const auto began_ns = now_ns(*self);
  m.in_force = set_pace(m, holds ? wanted : m.of.found);
  if (m.is_all_set && m.in_force != was) st.parent->acted.add(now_ns(*self) - began_ns);  // PPL-6
  st.step_pace = static_cast<uint32_t>(m.in_force.of_1024);
  st.policy.steps(m.looks, m.judged, now_ns(*self));
  st.parent->lease.steps(m.looks, m.in_force, st.words);
  st.journal.in_force(m.in_force, m.problem);
}

}  // namespace troupe::power
