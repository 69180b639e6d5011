// Of a budget: what is reported, and what answers come to.
#include "actors/power/node_parent.hpp"

#include <algorithm>
#include <utility>

#include "actors/base/context.hpp"
#include "actors/power/budget.hpp"
#include "io/config/power_tree.hpp"
#include "messages/text.hpp"

namespace troupe::power {

namespace {

/// Of a child that is not heard now it is not known: what is counted for it.
int64_t wish_of_all(const budget_state& st, int64_t now_ns) {
  int64_t out = 0;
  for (size_t i = 0; i < st.children.size(); ++i)
    out += st.policy->is_silent(i, now_ns)
               ? st.policy->counted_mw(i)
               : std::min(st.children[i].last.wish_mw, st.options.children[i].terms.ceiling_mw);
  return std::min(out, st.cap_mw);
}

fbs::PowerReportT report_of_node(budget_pointer self) {
  auto& st = self->state;
  const auto now = now_ns(*self);
  const auto drawn = drawn_by_all(st, now);
  auto out = message_of(
      st.parent->lease.report(now, {st.policy->counted_mw(), drawn.mw, wish_of_all(st, now)}));
  out.source = drawn.source;
  out.brake_armed = is_brake_armed(st, now);
  for (const auto& c : st.children) out.pace_of_1024 = std::max(out.pace_of_1024, c.pace_of_1024);
  for (const auto& c : st.children) out.actuation_ms = std::max(out.actuation_ms, c.actuation_ms);
  for (const auto& [machine, children] : st.machines.all()) {
    if (out.machines.size() == config::most_power_children) break;
    out.machines.push_back(machine);
  }
  return out;
}

status take_answer_above(budget_pointer self, const fbs::PowerGrant& g) {
  auto& st = self->state;
  auto& p = *st.parent;
  if (text_of(g.budget()) == st.options.name) return own_parent(st.options.name);  // NDP-1
  auto answer = answer_in(g);
  const bool is_covered = answer.static_share_mw >= p.shares_mw;
  if (!is_covered) answer.grant.order = {};  // NDP-2
  TROUPE_CHECK(must_fit(p.lease.hear(answer, now_ns(*self)), "this budget"));
  if (!is_covered)
    return uncovered_static_shares(text_of(g.budget()), st.options.name,
                                   watts_of(answer.static_share_mw), watts_of(p.shares_mw));
  p.brake_of = tls::is_name(text_of(g.brake_of())) ? text_of(g.brake_of()) : "";
  p.shared = shared_in(g);
  std::erase_if(p.shared, [](const auto& s) {
    return s.second < 2 || s.second > config::most_power_children;
  });
  return {};
}

}  // namespace

const std::string& name_of_parent(const parent_link& l) {
  return l.name.empty() ? l.options.named : l.name;
}

void begin_node_parent(budget_pointer self, const parent_options& options) {
  auto& st = self->state;
  int64_t shares_mw = 0;
  for (const auto& c : st.options.children) shares_mw += c.terms.static_share_mw;
  auto& p = st.parent.emplace(options, shares_mw);
  p.report = [self] { return report_of_node(self); };
  p.heard = [self](const fbs::PowerGrant& g) { return take_answer_above(self, g); };
  p.refused = [&p](const error& why) {
    if (why.is(process_superseded) || why.code == errc::not_found) p.lease.refused();  // NLP-3
  };
  p.say = [self](const std::string&) {
    const auto& above = *self->state.parent;
    self->state.journal.parent_not_heard(name_of_parent(above), above.problem);
  };
  p.says_unfound = true;
  p.changed = [] {};  // the next tick has it
  begin_link(self, p);
  self->set_down_handler([self, &p](const caf::down_msg& m) { parent_down(self, p, m); });
}

own_cap own_cap_of_now(budget_pointer self) {
  auto& st = self->state;
  if (!st.parent) return {st.cap_mw};
  auto& p = *st.parent;
  const auto now = now_ns(*self);
  if (!p.lease.has_begun() && st.policy->knows(now)) p.lease.begin(st.policy->told_mw());
  const bool was_braked = p.lease.is_braked();
  const auto own = p.lease.tick(st.cap_mw, now);
  if (was_braked != p.lease.is_braked()) st.journal.brake_set(!was_braked, name_of_parent(p));
  const auto before = std::exchange(p.told, own);
  if (before.leased != own.leased || (own.leased && before.cap_mw != own.cap_mw))
    st.journal.own_lease(name_of_parent(p), own, before.cap_mw);
  return own;
}

void report_above(budget_pointer self) {
  auto& p = self->state.parent;
  if (p && p->lease.has_begun()) keep_in_touch(self, *p);  // NLP-1
}

}  // namespace troupe::power
