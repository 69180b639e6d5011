// Reports as if caps were kept.
#include "actors/power/budget_dry.hpp"

#include <algorithm>

#include "actors/power/budget.hpp"

namespace troupe::power {

power_report as_if_kept(child_account& c, power_report said) {
  if (!c.heard || c.last.id.incarnation != said.id.incarnation) c.as_if_mw = said.in_force_mw;
  if (c.told && c.told->order == said.order) c.as_if_mw = c.told->cap_mw;
  said.in_force_mw = std::min(said.in_force_mw, c.as_if_mw);
  if (said.drawn_mw) said.drawn_mw = std::min(*said.drawn_mw, std::max<int64_t>(0, c.as_if_mw));
  return said;
}

power_grant whole_grant(power_grant decided, const budget_child& to) {
  decided.cap_mw = to.ceiling_mw;
  decided.shed = false;
  return decided;
}

}  // namespace troupe::power
