// What persons ask a budget and set; who said it is handed to whoever keeps the audit log.
#include "actors/power/budget_orders.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/base/context.hpp"
#include "actors/base/hardware.hpp"
#include "io/base/printable.hpp"
#include "messages/errors.hpp"
#include "messages/registry.hpp"
#include "messages/text.hpp"

namespace troupe::power {

namespace {

constexpr uint64_t a_year_ms = uint64_t{366} * 86'400'000;

std::string watts_text(int64_t mw) {
  return fmt::format("{} W", watts_of(mw));
}

/// As a person would set it: "2h", "90m", "45s", "1500ms".
std::string span_text(uint64_t ms) {
  for (const auto& [unit, of_ms] :
       {std::pair{"h", uint64_t{3'600'000}}, {"m", uint64_t{60'000}}, {"s", uint64_t{1000}}})
    if (ms % of_ms == 0) return fmt::format("{}{}", ms / of_ms, unit);
  return fmt::format("{}ms", ms);
}

/// BGA-10: the number of what a person has just said; 0: nobody keeps it. What the gateway of this
/// process passes on it has kept itself.
uint64_t begin_order(budget_pointer self, const any_msg& m) {
  auto& st = self->state;
  const auto& sender = self->current_sender();
  if (!st.options.orders || !sender || sender->node() == self->node()) return 0;
  const auto& peers = self->runtime().peers;
  const auto who = peers.find(sender);
  order_said said{"unknown", "", peers.place_of(sender), std::string(find_message(m.type())->name),
                  to_json(m)};
  if (who) said.who = who->name;
  if (who) said.role = to_string(who->as);
  const auto number = ++st.last_order;
  st.options.orders->begins(number, std::move(said));
  return number;
}

caf::error refuse_order(const budget_state& st, uint64_t order, const error& why) {
  end_order(st, order, why.message);
  return to_caf(why);
}

}  // namespace

caf::result<msg<fbs::PowerTree>> read_tree(budget_pointer self, const msg<fbs::ReadPowerTree>& m) {
  auto& st = self->state;
  const auto now = now_ns(*self);
  const auto only = text_of(m->child());
  const auto place = st.places.find(only);
  if (!only.empty() && place == st.places.end()) return to_caf(unknown_child(st, only, false));
  settle_budget(st, now);
  const auto t = tree_of(st, only.empty() ? std::nullopt : std::optional(place->second), now);
  auto made = try_make_msg<fbs::PowerTree>(context_of(*self, m.header()), t);
  if (!made) return to_caf(made.error());
  return *made;
}

namespace {

/// BGA-3
status may_be_set(const budget_state& st, int64_t mw) {
  std::vector<budget_child> terms;
  int64_t shares_mw = 0;
  for (const auto& c : st.options.children) {
    terms.push_back(c.terms);
    shares_mw += c.terms.static_share_mw;
  }
  const auto fits = check(st.options.rules, terms, mw);
  if (fits) return {};
  if (shares_mw <= mw) return fits.error();
  std::vector<std::string> parts;
  for (const auto& c : st.options.children)
    if (parts.size() < names_in_a_hint)
      parts.push_back(fmt::format("{} {}", c.name, watts_text(c.terms.static_share_mw)));
  if (parts.size() < st.options.children.size()) parts.emplace_back("others");
  return below_static_shares(st.options.name, watts_of(mw), watts_of(shares_mw),
                             fmt::format("{}", fmt::join(parts, " + ")));
}

/// An empty name is that of the one that there is.
status is_this_one(const budget_state& st, const std::string& budget) {
  if (budget.empty() || budget == st.options.name) return {};
  return error{errc::not_found,
               fmt::format("there is no budget \"{}\" here", printable(budget, shown_of_name)),
               fmt::format("the one here is {}", st.options.name)};
}

status may_be_asked(const budget_state& st, const fbs::SetPowerBudget& m) {
  TROUPE_CHECK(is_this_one(st, text_of(m.budget())));
  if (m.cap_mw() <= 0)
    return error{errc::bad_data, fmt::format("a budget of {} mW", m.cap_mw()),
                 "expected more than 0 W"};
  if (m.for_ms() > a_year_ms)
    return error{errc::bad_data, fmt::format("a budget for {} ms", m.for_ms()),
                 "expected at most 366 days; a budget that is set without a time stays"};
  return may_be_set(st, m.cap_mw());
}

std::string set_text(const budget_state& st, uint64_t for_ms) {
  const auto& o = st.options;
  if (for_ms == 0 && follows(st))
    return fmt::format("{} follows {}, as its configuration says: {} now", o.name,
                       printable(o.schedule->name()), watts_text(st.cap_mw));
  const auto has_mw = own_mw(st);
  const auto less = has_mw < st.cap_mw
                        ? fmt::format(", of which {} grants it {} now",
                                      printable(name_of_parent(*st.parent)), watts_text(has_mw))
                        : "";
  return fmt::format("{} has {} from now on{}{}", o.name, watts_text(st.cap_mw),
                     for_ms > 0 ? fmt::format(", for {}", span_text(for_ms)) : "", less);
}

}  // namespace

caf::result<msg<fbs::Ack>> set_budget(budget_pointer self, const msg<fbs::SetPowerBudget>& m) {
  auto& st = self->state;
  const auto order = begin_order(self, m);
  if (const auto may = may_be_asked(st, *m); !may) return refuse_order(st, order, may.error());
  const auto now = now_ns(*self);
  settle_budget(st, now);
  const auto person = self->runtime().peers.find(self->current_sender());
  const std::string by = person ? person->name : "";
  const auto was_mw = st.cap_mw;
  st.set_until_ns.reset();
  if (m->for_ms() > 0) {
    st.set_until_ns = now + static_cast<int64_t>(m->for_ms()) * ns_per_ms;
    st.set_for_time_by = by;
    st.cap_mw = m->cap_mw();
  } else {
    remember_budget(st, m->cap_mw(), by);
    st.cap_mw = standing_mw(st, now);
  }
  st.leased_mw = own_cap_of_now(self).cap_mw;
  st.journal.set(st.cap_mw, was_mw, m->for_ms(), by);
  show_budget(self);
  auto text = set_text(st, m->for_ms()) + fmt::format("; it was {}", watts_text(was_mw));
  if (m->for_ms() == 0) return answer_once_kept(self, m.header(), std::move(text), order);
  end_order(st, order, text);  // it is in no record
  return ack_of(self, m.header(), text);
}

namespace {

/// What a person's word to the brake has come to: also where another one holds work all the same.
std::string brake_text(const budget_state& st, bool as_before) {
  const auto held = std::ranges::count_if(st.children, [](const auto& c) { return c.heard; });
  const auto above = st.brake ? "" : brake_above(st);
  return fmt::format("{} {}{}{}: {} of {} children were heard", st.options.name,
                     st.brake ? "holds all work within its step" : "lets work go on",
                     as_before ? ", as before" : " from now on",
                     above.empty()
                         ? ""
                         : fmt::format(", but {0} above it holds all work within its step, until "
                                       "somebody lets it go on (troupe power brake {0} off)",
                                       printable(above)),
                     held, st.children.size());
}

}  // namespace

caf::result<msg<fbs::Ack>> set_brake(budget_pointer self, const msg<fbs::SetPowerBrake>& m) {
  auto& st = self->state;
  const auto order = begin_order(self, m);
  if (const auto here = is_this_one(st, text_of(m->budget())); !here)
    return refuse_order(st, order, here.error());
  const bool was = std::exchange(st.brake, m->on()) || (!m->on() && st.policy->holds_work());
  if (was != st.brake) {
    if (was) {
      st.policy->let_go();
      st.inputs.let_go();
    }
    const auto by = self->runtime().peers.find(self->current_sender());
    st.journal.brake_set(st.brake, by ? by->name : "");
    st.set_is_new = true;
    note_pulled(st);  // a life after this one is to find the person's word
    show_budget(self);
  }
  return answer_once_kept(self, m.header(), brake_text(st, was == st.brake), order);
}

void end_order(const budget_state& st, uint64_t order, const std::string& result) {
  if (order > 0) st.options.orders->ends(order, result);
}

msg<fbs::Ack> ack_of(budget_pointer self, const message_header& cause, const std::string& text) {
  return make_msg<fbs::Ack>(context_of(*self, cause), [&](fbs::AckT& a) { a.text = text; });
}

void remember_budget(budget_state& st, int64_t mw, std::string by) {
  const auto& o = st.options;
  const auto configured_mw = o.set ? o.set->instead_of_mw : o.budget_mw;
  st.for_good_mw = mw;
  st.set_is_new = true;
  if (mw == configured_mw)
    st.set.reset();
  else
    st.set = budget_set{mw, configured_mw, std::move(by), o.wall_time ? o.wall_time() : ""};
}

caf::result<msg<fbs::GatewayFound>, caf::strong_actor_ptr> find_gateway(
    budget_pointer self, const msg<fbs::FindGateway>& m) {
  const auto& o = self->state.options;
  if (m->schema_hash() != cluster::own_schema_hash())
    return to_caf({errc::version_mismatch,
                   fmt::format("the budget runs another version ({})", cluster::own_version()),
                   "use the program that serves it"});
  if (!o.gateway)
    return to_caf({errc::unavailable, fmt::format("{} has no console", o.name),
                   "troupe power tree, why, budget and brake speak to it"});
  const auto who = self->runtime().peers.find(self->current_sender());
  auto found = make_msg<fbs::GatewayFound>(context_of(*self, m.header()), [&](auto& d) {
    d.job = o.name;
    d.epoch = static_cast<uint32_t>(o.epoch);
    d.may_change = !who || who->as != tls::role::reader;
    d.who = who ? who->name : text_of(m->user());
    d.power_budget = true;
  });
  return {found, caf::actor_cast<caf::strong_actor_ptr>(o.gateway)};
}

}  // namespace troupe::power
