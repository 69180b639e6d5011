// A budget and its children as a person is shown them, and what they come to together.
#include <algorithm>
#include <memory>
#include <utility>

#include "actors/base/context.hpp"
#include "actors/power/budget.hpp"
#include "actors/power/budget_phase.hpp"

namespace troupe::power {

namespace {

std::unique_ptr<fbs::PowerChildT> tree_row(const budget_state& st, size_t i, int64_t now_ns) {
  const auto& terms = st.options.children[i].terms;
  const auto& c = st.children[i];
  auto out = std::make_unique<fbs::PowerChildT>();
  out->name = st.options.children[i].name;
  out->priority = power_class_names[static_cast<size_t>(terms.priority)];
  out->heard = c.heard;
  out->silent = st.policy->is_silent(i, now_ns);
  out->unruly = st.policy->is_unruly(i);
  out->counted_mw = st.policy->counted_mw(i);
  out->awaits_mw = st.policy->awaits_mw(i);
  out->floor_mw = terms.floor_mw;
  out->static_share_mw = terms.static_share_mw;
  out->ceiling_mw = terms.ceiling_mw;
  if (c.told) {
    out->shed = c.told->shed;
    out->granted_mw = c.told->cap_mw;
  }
  if (!c.heard) return out;
  out->in_force_mw = c.last.in_force_mw;
  out->drawn_mw = c.last.drawn_mw.value_or(-1);
  out->source = c.source;
  out->wish_mw = c.wishes_all ? -1 : c.last.wish_mw;
  out->pace_of_1024 = c.pace_of_1024;
  out->brake = is_braked(st, i);
  out->brake_armed = c.brake_armed;
  out->actuation_ms = c.actuation_ms;
  out->lease_left_ms =
      static_cast<uint64_t>(std::max<int64_t>(0, c.lease_until_ns - now_ns) / ns_per_ms);
  if (c.told && c.lease_until_ns > now_ns)
    out->lease_age_ms = (now_ns - c.lease_until_ns + c.told->ttl_ns) / ns_per_ms;
  out->heard_ago_ms = static_cast<uint64_t>((now_ns - c.heard_ns) / ns_per_ms);
  show_offset(st, i, now_ns, *out);
  return out;
}

/// Why it has what it has.
void tell_cause(const budget_state& st, int64_t now_ns, fbs::PowerTreeT& t) {
  t.set = st.set_until_ns || st.set;
  if (st.set_until_ns) {
    t.set_by = st.set_for_time_by;
    t.set_left_ms = static_cast<uint64_t>((*st.set_until_ns - now_ns + ns_per_ms - 1) / ns_per_ms);
  } else if (st.set) {
    t.set_by = st.set->by;
  } else if (st.options.schedule && st.options.schedule->at_mw(now_ns - st.began_ns)) {
    t.follows = st.options.schedule->name();
  }
}

void tell_thresholds(const budget_state& st, fbs::PowerTreeT& t) {
  const auto& marks = st.options.rules.thresholds;
  t.t1 = marks.t1;
  t.t2 = marks.t2;
  t.safe_t2 = st.policy->safe().safe_t2();
  t.thresholds_stand = st.thresholds_stand;
  t.low_share = st.policy->speed_of(power_class::low);
  t.high_share = st.policy->speed_of(power_class::high);
}

/// How this life has been so far. A brake that is only wanted (BGT-10) is none.
void tell_account(const budget_state& st, int64_t now_ns, fbs::PowerTreeT& t) {
  const auto ms = [](int64_t ns) { return static_cast<uint64_t>(ns / ns_per_ms); };
  const auto sums = st.account.sums(now_ns);
  t.brakes = st.policy->pulls() ? st.policy->row().brakes : 0;
  t.braked_ms = ms(sums.braked_ns);
  t.low_capped_ms = ms(sums.low_capped_ns);
  t.high_capped_ms = ms(sums.high_capped_ns);
  t.over_t2_ms = st.account.over_t2_ms(now_ns).value_or(-1);
  t.over_t2_since = st.over_t2_since;
  t.energy_j = sums.energy_j;
}

/// What children of a class may draw by their leases, or have without any, of their ceilings.
double granted_share(const budget_state& st, power_class of, int64_t now_ns) {
  int64_t caps_mw = 0, ceilings_mw = 0;
  for (size_t i = 0; i < st.children.size(); ++i) {
    const auto& terms = st.options.children[i].terms;
    const auto& c = st.children[i];
    if (terms.priority != of) continue;
    const bool is_leased = c.told && c.lease_until_ns > now_ns;
    caps_mw += std::min(terms.ceiling_mw, is_leased ? c.told->cap_mw : terms.static_share_mw);
    ceilings_mw += terms.ceiling_mw;
  }
  return ceilings_mw > 0 ? static_cast<double>(caps_mw) / static_cast<double>(ceilings_mw) : 1;
}

}  // namespace

drawn_watts drawn_by_all(const budget_state& st, int64_t now_ns) {
  drawn_watts out{0, fbs::PowerSource::measured};
  for (size_t i = 0; i < st.children.size(); ++i) {
    const auto& c = st.children[i];
    if (!c.last.drawn_mw || st.policy->is_silent(i, now_ns)) return {};
    *out.mw += *c.last.drawn_mw;
    if (c.source != fbs::PowerSource::measured) out.source = fbs::PowerSource::modelled;
  }
  return out;
}

bool is_brake_armed(const budget_state& st, int64_t now_ns) {
  for (size_t i = 0; i < st.children.size(); ++i) {
    const auto& c = st.children[i];
    // Who is silent may work by its static share, and hears nothing.
    if (st.policy->is_silent(i, now_ns) || (c.last.works && !c.brake_armed)) return false;
  }
  return true;
}

int64_t free_beside(const budget_state& st, size_t child) {
  const auto others_mw = st.counted_mw - st.policy->counted_mw(child);
  return std::max<int64_t>(0, own_mw(st) - others_mw);
}

void account_for(budget_state& st, const std::optional<int64_t>& drawn_mw, int64_t now_ns) {
  const auto slows = [&st](power_class of) {
    return st.thresholds_stand && st.policy->speed_of(of) < 1;
  };
  const double t2 = in_thresholds(st) ? st.options.rules.thresholds.t2 : 0;
  st.account.tick({drawn_mw, own_mw(st), t2, slows(power_class::low), slows(power_class::high),
                   st.policy->holds_work()},
                  now_ns);
  const bool over = st.account.over_t2_ms(now_ns).has_value();
  if (!over)
    st.over_t2_since.clear();
  else if (st.over_t2_since.empty() && st.options.wall_time)
    st.over_t2_since = st.options.wall_time();
}

void note_rungs(budget_state& st, const row_commands& decided, const drawn_watts& drawn) {
  if (!in_thresholds(st)) return;
  const auto& policy = *st.policy;
  budget_journal::rungs now;
  now.level = policy.row().level;
  now.reason = decided.reason;
  now.marks = marks_of(st.options.rules.row);
  now.low = policy.speed_of(power_class::low);
  now.high = policy.speed_of(power_class::high);
  for (size_t i = 0; i < st.children.size(); ++i) now.unruly |= policy.is_unruly(i);
  st.journal.rungs_taken(now, own_mw(st), drawn.mw);
}

void trace_tick(const budget_state& st, const drawn_watts& drawn, int64_t now_ns) {
  if (!st.options.trace || !drawn.mw) return;
  const auto marks = in_thresholds(st) ? marks_of(st.options.rules.row) : rung_marks{};
  const bool is_set = holds_all(st);
  budget_trace_row row;
  row.watts = watts_of(*drawn.mw);
  row.budget_w = watts_of(own_mw(st));
  row.counted_w = watts_of(st.counted_mw);
  row.t1 = marks[0];
  row.t2 = marks[1];
  row.t3 = marks[2];
  row.low = granted_share(st, power_class::low, now_ns);
  row.high = granted_share(st, power_class::high, now_ns);
  const bool may_pull = !st.options.dry_run;  // BGA-9
  row.brake = may_pull && st.policy->holds_work() ? trace_brake::pulled
              : is_set                            ? trace_brake::set
                                                  : trace_brake::off;
  row.brakes = may_pull && st.policy->pulls() ? st.policy->row().brakes : 0;
  row.modelled = drawn.source == fbs::PowerSource::modelled;
  st.options.trace(row);
}

fbs::PowerTreeT tree_of(const budget_state& st, std::optional<size_t> only, int64_t now_ns) {
  const auto drawn = drawn_by_all(st, now_ns);
  fbs::PowerTreeT t;
  t.name = st.options.name;
  t.mode = budget_mode_names[static_cast<size_t>(st.options.rules.mode)];
  t.cap_mw = own_mw(st);
  t.drawn_mw = drawn.mw.value_or(-1);
  t.source = drawn.source;
  t.counted_mw = st.policy->counted_mw();
  t.short_of_floors = st.short_of_floors;
  t.brake = holds_all(st);
  t.brake_here = st.brake;
  t.brake_above = brake_above(st);
  t.brake_pulled = st.policy->holds_work();
  t.knows = st.policy->knows(now_ns);
  t.epoch = st.options.epoch;
  t.dry_run = st.options.dry_run;
  if (st.parent) {
    t.parent = name_of_parent(*st.parent);
    t.lease_left_ms = static_cast<uint64_t>(st.parent->lease.left_ns(now_ns) / ns_per_ms);
  }
  tell_cause(st, now_ns, t);
  tell_account(st, now_ns, t);
  if (in_thresholds(st)) tell_thresholds(st, t);
  for (size_t i = 0; i < st.children.size(); ++i)
    if (!only || i == *only) t.children.push_back(tree_row(st, i, now_ns));
  return t;
}

}  // namespace troupe::power
