// Beats out of reports, and orders into answers.
#include "actors/power/budget_phase.hpp"

#include <optional>

#include "actors/base/context.hpp"

namespace troupe::power {

/// PHS-4: who is to pause or to hold its work makes no even steps, whatever it says.
void hear_beat(budget_state& st, size_t child, const fbs::PowerReport& said, int64_t now_ns) {
  if (!st.options.children[child].shifts) return;
  const auto& told = st.children[child].told;
  const bool works = said.pace_of_1024() > 0 && !is_braked(st, child) && !(told && told->shed);
  std::optional<step_beat> beat;
  if (works && said.step_us() > 0)
    beat = step_beat{phase_ns_of(said.step_us()), now_ns - phase_ns_of(said.step_age_us())};
  st.phase.hear(child, said.incarnation(), beat, now_ns);
}

/// BGA-11
void decide_offsets(budget_state& st, const budget_decision& decided, int64_t now_ns) {
  if (st.options.dry_run) return;
  const auto& policy = *st.policy;
  const bool quiet =
      policy.knows(now_ns) && !policy.holds_work() && !holds_all(st) && !decided.short_of_floors;
  for (const auto i : st.phase.tick(quiet, now_ns)) {
    const auto period_ns = st.phase.period_ns(i, now_ns).value_or(0);
    st.journal.shifted(i, st.phase.last(i)->order.offset_ns, period_ns);
  }
}

void tell_offset(const budget_state& st, size_t child, int64_t now_ns, fbs::PowerGrantT& into) {
  const auto order = st.phase.order_of(child, now_ns);
  if (!order) return;
  into.start_offset_us = phase_us_of(order->offset_ns);
  into.offset_number = order->number;
  into.offset_epoch = st.options.epoch;
}

void show_offset(const budget_state& st, size_t child, int64_t now_ns, fbs::PowerChildT& into) {
  into.step_us = phase_us_of(st.phase.period_ns(child, now_ns).value_or(0));
  const auto& last = st.phase.last(child);
  if (!last) return;
  into.start_offset_us = phase_us_of(last->order.offset_ns);
  into.offset_age_ms = (now_ns - last->at_ns) / ns_per_ms;
}

}  // namespace troupe::power
