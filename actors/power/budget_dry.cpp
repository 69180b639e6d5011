// Reports as if caps were kept, and ceilings that are kept.
#include "actors/power/budget_dry.hpp"

#include <algorithm>

#include "actors/power/budget.hpp"

namespace troupe::power {

int64_t as_if_mw(const child_account& c, const power_report& said) {
  if (c.told && c.told->order == said.order) return c.told->cap_mw;
  const bool goes_on = c.heard && c.last.id.incarnation == said.id.incarnation;
  return goes_on ? c.as_if_mw : said.in_force_mw;
}

power_report as_if_kept(power_report said, int64_t as_if_mw) {
  said.in_force_mw = std::min(said.in_force_mw, as_if_mw);
  if (said.drawn_mw) said.drawn_mw = std::min(*said.drawn_mw, std::max<int64_t>(0, as_if_mw));
  return said;
}

bool has_ceiling(const budget_state& st, size_t child) {
  const auto& o = st.options;
  return o.dry_run &&
         (!o.keeper || st.record.covered_mw()[child] >= o.children[child].terms.ceiling_mw);
}

power_grant dry_grant(power_grant decided, const budget_child& to, bool whole) {
  if (whole) decided.cap_mw = to.ceiling_mw;
  decided.shed = false;
  return decided;
}

/// One that a life before has pulled goes as the policy says.
bool is_pulled_after(const budget_state& st, bool holds_work) {
  return holds_work && (st.pulled || !st.options.dry_run);
}

}  // namespace troupe::power
