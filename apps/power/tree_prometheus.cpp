// A power budget and its children as gauges and counters.
#include <initializer_list>
#include <iterator>
#include <optional>
#include <utility>

#include "apps/power/prometheus.hpp"
#include "apps/power/tree_report.hpp"
#include "apps/power/watts.hpp"

namespace troupe::apps::power_verb {

namespace {

/// What is told of each child; none: of that one it is not known.
struct child_gauge {
  const char* name;
  const char* help;
  std::optional<double> (*value)(const fbs::PowerChildT&);
};

std::optional<double> known_watts(int64_t mw) {
  return mw < 0 ? std::nullopt : std::optional(watts_of_mw(mw));
}

/// 0: there is none.
std::optional<double> known_step(uint64_t us) {
  return us == 0 ? std::nullopt : std::optional(static_cast<double>(us) / 1e6);
}

constexpr child_gauge child_gauges[] = {
    {"granted_watts", "What is granted to a child of a power budget.",
     [](const auto& c) { return known_watts(c.granted_mw); }},
    {"in_force_watts", "What the child says that it may draw now.",
     [](const auto& c) { return known_watts(c.in_force_mw); }},
    {"counted_watts", "The most that the child may draw, by all that is known.",
     [](const auto& c) { return known_watts(c.counted_mw); }},
    {"drawn_watts", "What the child draws, as it said last.",
     [](const auto& c) { return known_watts(c.drawn_mw); }},
    {"wish_watts", "What the child would draw without a cap.",
     [](const auto& c) {
       return c.heard ? known_watts(c.wish_mw < 0 ? c.ceiling_mw : c.wish_mw) : std::nullopt;
     }},
    {"floor_watts", "Below it the child does nothing useful.",
     [](const auto& c) { return known_watts(c.floor_mw); }},
    {"static_watts", "What the child has without a lease.",
     [](const auto& c) { return known_watts(c.static_share_mw); }},
    {"pace_ratio", "The share of its speed that the child has.",
     [](const auto& c) { return c.heard ? std::optional(c.pace_of_1024 / 1024.0) : std::nullopt; }},
    {"lease_seconds", "What is left of the child's lease.",
     [](const auto& c) { return std::optional(static_cast<double>(c.lease_left_ms) / 1e3); }},
    {"lease_age_seconds", "How long ago the report was heard that the child's lease answers.",
     [](const auto& c) {
       return c.lease_age_ms < 0 ? std::nullopt
                                 : std::optional(static_cast<double>(c.lease_age_ms) / 1e3);
     }},
    {"step_seconds", "How long an even step of the child takes that may be shifted.",
     [](const auto& c) { return known_step(c.step_us); }},
    {"start_offset_seconds", "By how much a step of the child was held back last, to stand apart.",
     [](const auto& c) { return known_step(c.start_offset_us); }},
    {"brake", "1: the child is told to hold its work.",
     [](const auto& c) { return std::optional(c.brake ? 1.0 : 0.0); }},
    {"silent", "1: the child is not heard.",
     [](const auto& c) { return std::optional(c.silent ? 1.0 : 0.0); }},
    {"unruly", "1: the child draws more than its cap.",
     [](const auto& c) { return std::optional(c.unruly ? 1.0 : 0.0); }},
    {"shed", "1: the child is told to save and pause.",
     [](const auto& c) { return std::optional(c.shed ? 1.0 : 0.0); }},
};

/// A family of one sample.
std::string budget_metric(const fbs::PowerTreeT& t, const char* kind, const char* name,
                          const char* help, double value) {
  return metric_family(name, kind, help) +
         fmt::format("{}{{budget={}}} {}\n", name, label_value(t.name), value);
}

std::string budget_gauge(const fbs::PowerTreeT& t, const char* name, const char* help,
                         double value) {
  return budget_metric(t, "gauge", name, help, value);
}

std::string brake_gauges(const fbs::PowerTreeT& t) {
  auto out = budget_gauge(t, "troupe_power_brake", "1: a person holds the work of all children.",
                          t.brake_here ? 1 : 0) +
             budget_gauge(t, "troupe_power_brake_pulled", "1: the budget holds work by itself.",
                          t.brake_pulled ? 1 : 0);
  if (!t.parent.empty())
    out += budget_gauge(t, "troupe_power_brake_above",
                        "1: the brake of a budget above holds the work of all children.",
                        t.brake_above.empty() ? 0 : 1);
  return out;
}

/// Of a budget below another one.
std::string own_lease_gauge(const fbs::PowerTreeT& t) {
  constexpr const char* name = "troupe_power_own_lease_seconds";
  if (t.parent.empty()) return "";
  return metric_family(name, "gauge", "What is left of the budget's own lease.") +
         fmt::format("{}{{budget={},parent={}}} {}\n", name, label_value(t.name),
                     label_value(t.parent), static_cast<double>(t.lease_left_ms) / 1e3);
}

/// Samples of a family that differ in one label.
std::string labelled(const fbs::PowerTreeT& t, const char* kind, const char* name, const char* help,
                     const char* label,
                     std::initializer_list<std::pair<const char*, double>> values) {
  auto out = metric_family(name, kind, help);
  for (const auto& [of, value] : values)
    fmt::format_to(std::back_inserter(out), "{}{{budget={},{}=\"{}\"}} {}\n", name,
                   label_value(t.name), label, of, value);
  return out;
}

/// Of a budget in thresholds: what is slowed from where on, and by how much now.
std::string threshold_gauges(const fbs::PowerTreeT& t) {
  if (t.t2 <= 0) return "";
  return labelled(t, "gauge", "troupe_power_threshold_ratio",
                  "The share of the budget above which a class is slowed; safe_t2: the "
                  "greatest T2 that leaves caps the time to bind.",
                  "threshold", {{"t1", t.t1}, {"t2", t.t2}, {"safe_t2", t.safe_t2}}) +
         budget_gauge(t, "troupe_power_thresholds_stand",
                      "1: children may have more than their static shares together.",
                      t.thresholds_stand ? 1 : 0) +
         labelled(t, "gauge", "troupe_power_class_ratio",
                  "What children of a class may have of their ceilings.", "priority",
                  {{"low", t.low_share}, {"high", t.high_share}});
}

double seconds_of(uint64_t ms) {
  return static_cast<double>(ms) / 1e3;
}

/// From 0 with each life of the budget.
std::string account_counters(const fbs::PowerTreeT& t) {
  auto out = budget_metric(t, "counter", "troupe_power_brakes_total",
                           "How often the budget has pulled its brake by itself.",
                           static_cast<double>(t.brakes)) +
             budget_metric(t, "counter", "troupe_power_braked_seconds_total",
                           "For how long it has held work by that.", seconds_of(t.braked_ms)) +
             budget_metric(t, "counter", "troupe_power_drawn_joules_total",
                           "What all children have drawn, while it was known of all.", t.energy_j);
  if (t.t2 <= 0) return out;
  return out +
         labelled(t, "counter", "troupe_power_capped_seconds_total",
                  "For how long a class had less than its ceilings.", "priority",
                  {{"low", seconds_of(t.low_capped_ms)}, {"high", seconds_of(t.high_capped_ms)}}) +
         budget_gauge(t, "troupe_power_over_t2_seconds",
                      "For how long more than T2 of the budget is drawn; 0: it is not.",
                      t.over_t2_ms < 0 ? 0 : static_cast<double>(t.over_t2_ms) / 1e3);
}

}  // namespace

std::string tree_prometheus(const fbs::PowerTreeT& t) {
  std::string out = budget_gauge(t, budget_watts_name, budget_watts_help, watts_of_mw(t.cap_mw));
  out += budget_gauge(t, "troupe_power_counted_watts",
                      "The most that all children may draw, by what is known.",
                      watts_of_mw(t.counted_mw));
  if (t.drawn_mw >= 0)
    out += budget_gauge(t, "troupe_power_drawn_watts", "What all children draw together.",
                        watts_of_mw(t.drawn_mw));
  out += budget_gauge(t, "troupe_power_short_of_floors", "1: it has less than all floors together.",
                      t.short_of_floors ? 1 : 0);
  out += budget_gauge(t, "troupe_power_epoch", "How many lives the budget has had.",
                      static_cast<double>(t.epoch));
  out +=
      budget_gauge(t, "troupe_power_dry_run", "1: what is decided is not done.", t.dry_run ? 1 : 0);
  out += brake_gauges(t) + own_lease_gauge(t) + threshold_gauges(t) + account_counters(t);
  for (const auto& gauge : child_gauges) {
    const auto name = fmt::format("troupe_power_child_{}", gauge.name);
    out += metric_family(name.c_str(), "gauge", gauge.help);
    for (const auto& c : t.children)
      if (const auto value = gauge.value(*c))
        fmt::format_to(std::back_inserter(out), "{}{{budget={},child={},priority={}}} {}\n", name,
                       label_value(t.name), label_value(c->name), label_value(c->priority), *value);
  }
  return out;
}

}  // namespace troupe::apps::power_verb
