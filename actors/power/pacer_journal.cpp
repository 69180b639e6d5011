// Decisions as lines.
#include "actors/power/pacer_journal.hpp"

#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/base/printable.hpp"

namespace troupe::power {

namespace {

using nlohmann::ordered_json;

constexpr size_t shown_of_reason = 512;

/// -1, and whatever else is no power, is not known.
ordered_json known_or_none(double x) {
  return std::isfinite(x) && x >= 0 ? ordered_json(x) : ordered_json(nullptr);
}

ordered_json bound_or_none(double w) {
  return w > 0 ? ordered_json(w) : ordered_json(nullptr);
}

std::string_view name_of(lease_hold hold) {
  switch (hold) {
    case lease_hold::replaced:
      return "replaced";
    case lease_hold::no_child:
      return "no_child";
    case lease_hold::no_lease:
      return "no_lease";
    case lease_hold::no_watts:
      return "no_watts";
    case lease_hold::shed:
      return "shed";
    case lease_hold::brake:
      return "brake";
    case lease_hold::none:
      break;
  }
  return "none";
}

ordered_json lease_json(const pacer_decision::leased& l) {
  return {{"parent", printable(l.parent)},
          {"epoch", l.order.epoch},
          {"sequence", l.order.sequence},
          {"cap_w", l.cap_w},
          {"left_s", static_cast<double>(l.left_ns) / 1e9}};
}

}  // namespace

std::string_view rule_of(const pacer_decision& d) {
  if (d.lease && d.lease->hold != lease_hold::none) return name_of(d.lease->hold);
  if (d.pace.of_1024 == 0) return "draw";
  if (d.ramps_to) return "ramp";
  if (d.budget_w <= 0) return "none";
  if (!d.lease || (d.own_w > 0 && d.own_w < d.lease->cap_w)) return "budget";
  return d.lease->left_ns > 0 ? "lease" : "lapsed";
}

void pacer_journal::begins(uint32_t epoch, double budget_w, std::string_view parent,
                           bool dry_run) const {
  if (!to_) return;
  ordered_json line{{"event", "begins"}, {"epoch", epoch}, {"budget_w", bound_or_none(budget_w)}};
  if (!parent.empty()) line["parent"] = printable(parent);
  if (dry_run) line["dry_run"] = true;
  to_(line.dump());
}

pacer_journal::essence pacer_journal::goal_of(essence e) {
  std::get<0>(e) = 0;
  return e;
}

void pacer_journal::decided(const pacer_decision& d) {
  if (!to_) return;
  const auto rule = rule_of(d);
  const uint64_t life = d.lease ? d.lease->order.epoch : 0;
  const essence now{d.pace.of_1024, rule, std::llround(d.budget_w * 1000), life,
                    d.ramps_to.value_or(d.pace).of_1024};
  const auto was = std::exchange(told_, now);
  if (was == now) return;  // PJN-1
  if (was && d.ramps_to && goal_of(*was) == goal_of(now)) return;
  ordered_json line{{"event", "pace"},
                    {"rule", rule},
                    {"pace_of_1024", d.pace.of_1024},
                    {"was_of_1024", was ? ordered_json(std::get<0>(*was)) : ordered_json(nullptr)},
                    {"budget_w", bound_or_none(d.budget_w)},
                    {"own_w", bound_or_none(d.own_w)},
                    {"drawn_w", known_or_none(d.drawn.power_w)},
                    {"mean_w", known_or_none(d.drawn.mean_w)},
                    {"idle_w", known_or_none(d.drawn.idle_w)},
                    {"full_w", known_or_none(d.drawn.full_w)},
                    {"energy_j", known_or_none(d.drawn.energy_j)},
                    {"modelled", d.drawn.modelled},
                    {"stale", d.drawn.is_stale},
                    {"machines", d.drawn.machines}};
  if (d.ramps_to) {
    line["to_of_1024"] = d.ramps_to->of_1024;
    line["in_s"] =
        d.ramp_ns ? ordered_json(static_cast<double>(*d.ramp_ns) / 1e9) : ordered_json(nullptr);
  }
  if (d.lease) line["lease"] = lease_json(*d.lease);
  if (!d.why.empty()) line["why"] = printable(d.why, shown_of_reason);
  to_(line.dump());
}

void pacer_journal::shifted(uint64_t offset_us, std::string_view parent) const {
  if (!to_) return;
  to_(ordered_json{{"event", "shifted"},
                   {"start_offset_ms", static_cast<double>(offset_us) / 1000},
                   {"parent", printable(parent)}}
          .dump());
}

void pacer_journal::in_force(work_pace pace, const std::string& not_set) {
  const auto was = std::exchange(set_, {pace, not_set});
  if (!to_ || was == set_) return;
  ordered_json line{
      {"event", "in_force"}, {"pace_of_1024", pace.of_1024}, {"was_of_1024", was.first.of_1024}};
  if (!not_set.empty()) line["not_set"] = printable(not_set, shown_of_reason);
  to_(line.dump());
}

}  // namespace troupe::power
