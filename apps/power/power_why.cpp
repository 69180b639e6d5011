// Sentences about watts.
#include "apps/power/power_why.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "actors/power/job_parent.hpp"
#include "apps/power/rack_rows.hpp"
#include "apps/power/tree_report.hpp"
#include "apps/power/watts.hpp"
#include "io/base/counted.hpp"
#include "io/base/printable.hpp"

namespace troupe::apps::power_verb {

namespace {

using nlohmann::ordered_json;
using child_row = fbs::PowerChildT;

constexpr size_t others_named = 4;
constexpr double least_shown_w = 0.05;  // less is no difference to a person

std::string short_watts(int64_t mw) {
  return fmt::format("{:.4g} W", watts_of_mw(mw));
}

/// What it would have if all were there.
int64_t wanted_mw(const child_row& c) {
  return c.wish_mw < 0 ? c.ceiling_mw : std::min(c.wish_mw, c.ceiling_mw);
}

std::string speed_text(double percent) {
  return percent <= 0      ? "makes no steps"
         : percent < 99.95 ? fmt::format("works at {:.0f} % of full speed", percent)
                           : "works at full speed";
}

// -- by the budget --------------------------------------------------------------------------------

std::string answer_of(const fbs::PowerTreeT& t, const child_row& c) {
  const auto name = printable(c.name), budget = printable(t.name);
  if (!c.heard)
    return fmt::format("{} has not been heard by {}, which keeps {} for it", name, budget,
                       short_watts(c.counted_mw));
  if (c.silent)
    return fmt::format("{} has been silent for {}; {} keeps {} for it", name,
                       time_text(c.heard_ago_ms), budget, short_watts(c.counted_mw));
  if (c.granted_mw < 0) return fmt::format("{} waits for its first lease of {}", name, budget);
  return fmt::format("{} has {} of the {} of {}, asks for {} and {}", name,
                     short_watts(c.granted_mw), short_watts(t.cap_mw), budget,
                     c.wish_mw < 0
                         ? fmt::format("all that it can draw, {}", short_watts(c.ceiling_mw))
                         : short_watts(c.wish_mw),
                     speed_text(100.0 * c.pace_of_1024 / 1024));
}

/// Why a child has watts that another one wants; what is wrong stands first (PWY-2).
enum class claim : uint8_t { unruly, silent, unheard, goes_first, as_well, low };

claim claim_of(const child_row& other, const child_row& c) {
  if (!other.heard) return claim::unheard;
  if (other.silent) return claim::silent;
  if (other.unruly) return claim::unruly;
  if (other.priority == c.priority) return claim::as_well;
  return other.priority == "high" ? claim::goes_first : claim::low;
}

std::string claim_text(const child_row& other, claim why) {
  const auto name = printable(other.name), priority = printable(other.priority);
  const auto has = short_watts(other.counted_mw);
  switch (why) {
    case claim::unruly:
      return fmt::format("{} draws more than its cap of {}, and counts at {}", name,
                         short_watts(std::max(other.granted_mw, other.in_force_mw)), has);
    case claim::silent:
      return fmt::format("{} has been silent for {}: {} are kept for it", name,
                         time_text(other.heard_ago_ms), has);
    case claim::unheard:
      return fmt::format("{} has not been heard: {} are kept for it", name, has);
    case claim::goes_first:
      return fmt::format("{} is of {} priority, which goes first, and has {}", name, priority, has);
    case claim::as_well:
      return fmt::format("{} is of {} priority as well, and has {}", name, priority, has);
    case claim::low:
      break;
  }
  return fmt::format("{} is of {} priority and has {}, with a floor of {}", name, priority, has,
                     short_watts(other.floor_mw));
}

/// Who has watts that it wants, what is wrong and who has most first.
std::vector<std::string> claims_against(const fbs::PowerTreeT& t, const child_row& c) {
  struct claimant {
    claim why;
    const child_row* who;
  };
  std::vector<claimant> all;
  for (const auto& other : t.children)
    if (other->name != c.name && other->counted_mw > 0)
      all.push_back({claim_of(*other, c), other.get()});
  std::ranges::stable_sort(all, [](const claimant& a, const claimant& b) {
    return std::pair(a.why, -a.who->counted_mw) < std::pair(b.why, -b.who->counted_mw);
  });
  std::vector<std::string> out;
  int64_t rest_mw = 0;
  for (size_t i = 0; i < all.size(); ++i)
    if (i < others_named)
      out.push_back(claim_text(*all[i].who, all[i].why));
    else
      rest_mw += all[i].who->counted_mw;
  if (all.size() > others_named)
    out.push_back(fmt::format("and {} with {} together",
                              counted(all.size() - others_named, "child", "children"),
                              short_watts(rest_mw)));
  return out;
}

std::vector<std::string> unheard_in(const fbs::PowerTreeT& t) {
  std::vector<std::string> out;
  for (const auto& c : t.children)
    if (!c->heard && out.size() < others_named) out.push_back(printable(c->name));
  return out;
}

/// Whose silence takes thresholds away, or whose work that nobody can hold.
std::vector<std::string> disarmed_by(const fbs::PowerTreeT& t) {
  std::vector<std::string> out;
  for (const auto& c : t.children) {
    const char* why = !c->heard                                ? "was never heard"
                      : c->silent                              ? "is silent"
                      : c->pace_of_1024 > 0 && !c->brake_armed ? "cannot be held"
                                                               : nullptr;
    if (why != nullptr && out.size() < others_named)
      out.push_back(fmt::format("{} {}", printable(c->name), why));
  }
  return out;
}

/// What a row that promises more than it has lets its children have.
void add_of_thresholds(const fbs::PowerTreeT& t, const child_row& c, std::vector<std::string>& to) {
  const auto budget = printable(t.name);
  const double share = c.priority == "high" ? t.high_share : t.low_share;
  if (!t.thresholds_stand) {
    const auto by = disarmed_by(t);
    to.push_back(fmt::format(
        "{} has no thresholds now, and each child its static_w: they stand while all its children "
        "are read and can be held at once, and its own lease is valid{}{}",
        budget, by.empty() ? "" : ": ", fmt::join(by, ", ")));
  } else if (share < 1) {
    to.push_back(
        fmt::format("{} priority has {:.0f} % of its ceiling_w, since {} was above a "
                    "threshold (T1 {:.0f} %, T2 {:.0f} %)",
                    printable(c.priority), 100 * share, budget, 100 * t.t1, 100 * t.t2));
  }
}

/// The budgets whose brakes hold its children: each one has to be let go.
std::vector<std::string> brakes_on(const fbs::PowerTreeT& t) {
  std::vector<std::string> out;
  if (!t.brake_above.empty()) out.push_back(printable(t.brake_above));
  if (t.brake_here || t.brake_above.empty()) out.push_back(printable(t.name));
  return out;
}

/// What holds whatever others have.
void add_hindrances(const fbs::PowerTreeT& t, const child_row& c, std::vector<std::string>& to) {
  const auto budget = printable(t.name);
  if (c.brake && !t.brake && t.brake_pulled)
    to.push_back(
        fmt::format("{0} has pulled the brake, since more was drawn than it has: it lets work go "
                    "on, a part of its children at a time, once there is room, or at once by "
                    "troupe power brake {0} off",
                    budget));
  else if (c.brake)
    for (const auto& whose : brakes_on(t))
      to.push_back(
          fmt::format("the brake of {0} is on: all work is held within its step until "
                      "somebody lets it go on (troupe power brake {0} off)",
                      whose));
  if (c.unruly)
    to.push_back(
        fmt::format("it draws more than its cap, and counts at {}", short_watts(c.counted_mw)));
  if (c.shed)
    to.push_back(
        fmt::format("{} is less than the floors of all children together: it is told to "
                    "save and pause",
                    short_watts(t.cap_mw)));
  if (!t.knows) {
    const auto missing = unheard_in(t);
    to.push_back(fmt::format(
        "{} has begun anew, and raises nobody before it knows what all have{}", budget,
        missing.empty() ? "" : fmt::format(": not heard yet: {}", fmt::join(missing, ", "))));
  }
  if (c.awaits_mw > 0)
    to.push_back(
        fmt::format("it has {} as soon as {} has written that to its record: the disk of "
                    "its folder is slow, or full",
                    short_watts(c.awaits_mw), budget));
  if (t.t2 > 0) add_of_thresholds(t, c, to);
  if (t.counted_mw > t.cap_mw && !t.thresholds_stand)
    to.push_back(
        fmt::format("{} may be drawn, more than {} has: nobody is raised until that is "
                    "given back",
                    short_watts(t.counted_mw), budget));
}

/// It holds one step up, and changes no watts.
void add_of_offset(const fbs::PowerTreeT& t, const child_row& c, std::vector<std::string>& to) {
  if (const auto text = offset_text(c); !text.empty())
    to.push_back(fmt::format("{} had {}, so that they fall between those of others",
                             printable(t.name), text));
}

/// PWY-1
bool has_all(const child_row& c) {
  return !c.shed && !c.brake && c.granted_mw >= 0 &&
         watts_of_mw(wanted_mw(c) - c.granted_mw) < least_shown_w;
}

void add_of_silent(const fbs::PowerTreeT& t, const child_row& c, std::vector<std::string>& to) {
  if (!c.heard)
    to.push_back(fmt::format("a job joins {} under this name, by power.parent", printable(t.name)));
  else
    to.push_back(
        fmt::format("its process, or the link to it, does not answer; once its lease is "
                    "over it has {} by itself, its static_w",
                    short_watts(c.static_share_mw)));
}

void add_of_content(const fbs::PowerTreeT& t, const child_row& c, std::vector<std::string>& to) {
  if (c.wish_mw < 0 || c.wish_mw > c.ceiling_mw)
    to.push_back(
        fmt::format("its ceiling_w in {} is {}", printable(t.name), short_watts(c.ceiling_mw)));
  else
    to.push_back(fmt::format("it is granted all that it asks for: {} does not hold it up",
                             printable(t.name)));
}

// -- by the job -----------------------------------------------------------------------------------

bool is_refused(const fbs::PacerStatusT& p) {
  return p.reason.starts_with(power::replaced_reason);
}

std::string answer_of(const std::string& job, const fbs::PacerStatusT& p) {
  const auto name = printable(job);
  if (is_refused(p))
    return fmt::format("{} is refused by {} and makes no steps", name, printable(p.parent));
  if (p.budget_w <= 0 && p.parent.empty())  // a ramp alone may slow it
    return fmt::format("{} has no power budget{}", name,
                       p.decided.empty() && p.reason.empty()
                           ? ""
                           : fmt::format(" and {}", speed_text(p.pace_percent)));
  return fmt::format(
      "{} {} and {}", name,
      p.budget_w > 0 ? fmt::format("may draw {:.4g} W", p.budget_w) : "has no watts yet",
      speed_text(p.pace_percent));
}

void add_of_parent(const fbs::PacerStatusT& p, std::vector<std::string>& to) {
  const auto parent = printable(p.parent);
  if (is_refused(p)) {  // its watts are the other's
    if (!p.parent_problem.empty()) to.push_back(printable(p.parent_problem));
    return;
  }
  if (p.cap_w >= 0 && p.lease_left_ms == 0)
    to.push_back(
        fmt::format("its lease of {} has lapsed: it has {:.4g} W until that is heard "
                    "again",
                    parent, p.cap_w));
  if (p.cap_w >= 0 && p.budget_w > 0 && p.cap_w - p.budget_w > least_shown_w)
    to.push_back(
        fmt::format("its own power.budget_w, {:.4g} W, is less than the {:.4g} W that {} "
                    "grants",
                    p.budget_w, p.cap_w, parent));
  if (!p.parent_problem.empty())
    to.push_back(fmt::format("{} is not heard: {}", parent, printable(p.parent_problem)));
}

}  // namespace

power_why why_by_budget(const fbs::PowerTreeT& t, const child_row& c) {
  power_why out{c.name, answer_of(t, c)};
  if (!c.heard || c.silent) {
    add_of_silent(t, c, out.reasons);
    return out;
  }
  if (c.granted_mw >= 0 && c.granted_mw - c.in_force_mw > 0)
    out.reasons.push_back(fmt::format("of that {} are in force so far",
                                      short_watts(std::max<int64_t>(0, c.in_force_mw))));
  if (has_all(c)) {
    add_of_content(t, c, out.reasons);
    add_of_offset(t, c, out.reasons);
    return out;
  }
  add_hindrances(t, c, out.reasons);
  if (!t.thresholds_stand)
    for (auto& text : claims_against(t, c)) out.reasons.push_back(std::move(text));
  if (const auto cause = cause_text(t); !cause.empty())
    out.reasons.push_back(
        fmt::format("{} has {}, {}", printable(t.name), short_watts(t.cap_mw), cause));
  if (out.reasons.empty()) out.reasons.push_back(fmt::format("{} has no more", printable(t.name)));
  add_of_offset(t, c, out.reasons);
  return out;
}

power_why why_by_job(const std::string& job, const fbs::PacerStatusT& p) {
  power_why out{job, answer_of(job, p)};
  out.is_refused = is_refused(p);
  if (!p.reason.empty()) out.reasons.push_back("no step begins: " + printable(p.reason));
  if (p.reason.empty() && !p.decided.empty() && !out.is_refused)  // also that a dry run alone has
    out.reasons.push_back("its pace was changed " + printable(p.decided));
  for (auto& line : rack_lines(p)) out.reasons.push_back(std::move(line));
  if (!p.parent.empty() && p.racks.empty()) add_of_parent(p, out.reasons);
  if (!p.slack.empty()) out.reasons.push_back("its slack is " + printable(p.slack));
  if (p.budget_w > 0 && p.full_w > p.budget_w)
    out.reasons.push_back(fmt::format("at full speed it would draw {}",
                                      watts(p.full_w, p.source == fbs::PowerSource::modelled)));
  return out;
}

power_why why_by_job(const job_power& job) {
  auto out = why_by_job(job.job, job.pacer);
  for (const auto& m : job.machines)
    if (auto words = outside_brake_words(m); !words.empty())
      out.reasons.push_back(std::move(words));
  return out;
}

void add_own_words(power_why& by_budget, const power_why& by_job) {
  const auto* whose = by_job.is_refused
                          ? "another job of this name, of which nothing above is, says"
                          : "the job itself says";
  for (const auto& reason : by_job.reasons)
    by_budget.reasons.push_back(fmt::format("{}: {}", whose, reason));
}

std::string why_text(const std::vector<power_why>& all) {
  std::string out;
  for (const auto& w : all) {
    out += w.answer + "\n";
    for (const auto& reason : w.reasons) out += "  " + reason + "\n";
  }
  return out;
}

std::string why_json(const std::vector<power_why>& all) {
  ordered_json j{{"type", "power_why"}};
  j["jobs"] = ordered_json::array();
  for (const auto& w : all)
    j["jobs"].push_back({{"job", w.job}, {"answer", w.answer}, {"reasons", w.reasons}});
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::apps::power_verb
