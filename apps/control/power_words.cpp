// Words to a budget's messages, and what it answers.
#include "apps/control/power_words.hpp"

#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/control/session.hpp"
#include "apps/power/power_status.hpp"
#include "apps/power/power_why.hpp"
#include "apps/power/tree_report.hpp"
#include "io/base/printable.hpp"

namespace troupe::apps {

namespace {

answer said_by_budget(const std::string& text, const answer_form& as) {
  using nlohmann::ordered_json;
  if (!as.json) return {printable(text) + "\n"};
  const ordered_json j{{"text", text}};
  return {j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n"};
}

answer in_sentences(const std::vector<power_verb::power_why>& all, const answer_form& as) {
  return {as.json ? power_verb::why_json(all) : power_verb::why_text(all)};
}

/// An unknown child's error is the budget's own, which says whom there is.
result<answer> why_below(session& s, const std::string& child, const answer_form& as) {
  if (!child.empty()) TROUPE_CHECK(s.power_tree(child));
  TROUPE_TRY(tree, s.power_tree(""));  // why one has few watts lies with the others
  std::vector<power_verb::power_why> all;
  for (const auto& c : tree.children)
    if (child.empty() || c->name == child) all.push_back(power_verb::why_by_budget(tree, *c));
  return in_sentences(all, as);
}

result<std::string> set_budget_by(session& s, const commands::power& c) {
  fbs::SetPowerBudgetT order;
  TROUPE_TRY(cap_mw, power_verb::milliwatts_in(c.budget_w));
  order.cap_mw = cap_mw;
  order.budget = c.name;
  if (!c.for_time.empty()) {
    TROUPE_TRY(for_ms, power_verb::milliseconds_in(c.for_time));
    order.for_ms = for_ms;
  }
  return s.set_power_budget(order);
}

}  // namespace

status is_about_job(const session& s, const commands::power& c) {
  if (c.brake) return no_power_budget(s.job(), "it has no brake of its own; `pause` stops it");
  if (!c.for_time.empty()) return no_power_budget(s.job(), "its own budget is set for good");
  if (!c.name.empty() && c.name != s.job())
    return no_power_budget(s.job(), fmt::format("it knows no {}", printable(c.name)));
  return {};
}

result<answer> power_of_job(session& s, const commands::power& c, const answer_form& as) {
  TROUPE_TRY(view, s.view("", "", false));
  const auto job = power_verb::job_power_in(view);
  if (c.why) return in_sentences({power_verb::why_by_job(job)}, as);
  return answer{as.json ? power_verb::status_json(job) : power_verb::status_text(job)};
}

result<answer> tell_power_budget(session& s, const commands::power& c, const answer_form& as) {
  if (c.brake) {
    fbs::SetPowerBrakeT order;
    order.budget = c.name;
    order.on = *c.brake;
    TROUPE_TRY(text, s.set_power_brake(order));
    return said_by_budget(text, as);
  }
  if (!c.budget_w.empty()) {
    TROUPE_TRY(text, set_budget_by(s, c));
    return said_by_budget(text, as);
  }
  const auto child = c.name == s.job() ? std::string() : c.name;
  if (c.why) return why_below(s, child, as);
  TROUPE_TRY(tree, s.power_tree(child));
  return answer{as.json ? power_verb::tree_json(tree) : power_verb::tree_text(tree)};
}

}  // namespace troupe::apps
