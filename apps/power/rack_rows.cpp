// A row for each rack.
#include "apps/power/rack_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/power/prometheus.hpp"
#include "apps/power/watts.hpp"
#include "io/base/printable.hpp"

namespace troupe::apps::power_verb {

namespace {

using nlohmann::ordered_json;

struct granted {
  std::string parent;
  double cap_w = -1;
  uint64_t lease_left_ms = 0;
};

std::vector<granted> all_granted(const fbs::PacerStatusT& p) {
  std::vector<granted> out;
  for (const auto& r : p.racks)
    if (r->cap_w >= 0) out.push_back({r->parent, r->cap_w, r->lease_left_ms});
  if (p.racks.empty() && p.cap_w >= 0) out.push_back({p.parent, p.cap_w, p.lease_left_ms});
  return out;
}

std::string lease_of(const fbs::PacerRackT& r) {
  if (r.cap_w < 0) return "no lease yet";
  return r.lease_left_ms == 0 ? "its lease has lapsed"
                              : fmt::format("lease {:.1f} s", r.lease_left_ms / 1e3);
}

}  // namespace

std::vector<std::string> rack_lines(const fbs::PacerStatusT& p) {
  std::vector<std::string> out;
  const bool modelled = p.source == fbs::PowerSource::modelled;
  for (const auto& r : p.racks) {
    const auto drawn =
        r->cap_w < 0 ? watts(r->power_w, modelled) : watts_of(r->power_w, modelled, r->cap_w);
    const auto speed = r->pace_percent > 0
                           ? fmt::format("leaves {:.0f} % of full speed", r->pace_percent)
                           : std::string("lets no step begin");
    auto line = fmt::format("{} feeds {}: {}, {}, which {}", r->parent, fmt::join(r->nodes, ", "),
                            drawn, lease_of(*r), speed);
    if (!r->problem.empty()) line += fmt::format(" (not heard: {})", r->problem);
    out.push_back(printable(line));
  }
  return out;
}

ordered_json racks_json(const fbs::PacerStatusT& p) {
  auto out = ordered_json::array();
  for (const auto& r : p.racks)
    out.push_back(
        {{"parent", r->parent},
         {"nodes", r->nodes},
         {"cap_w", number_or_null(r->cap_w)},
         {"lease_left_ms", r->cap_w < 0 ? ordered_json(nullptr) : ordered_json(r->lease_left_ms)},
         {"power_w", number_or_null(r->power_w)},
         {"pace_percent", r->pace_percent},
         {"problem", r->problem.empty() ? ordered_json(nullptr) : ordered_json(r->problem)}});
  return out;
}

std::string caps_prometheus(const std::string& job, const fbs::PacerStatusT& p) {
  const auto all = all_granted(p);
  if (all.empty()) return "";
  const auto name = label_value(job);
  auto out =
      metric_family("troupe_power_cap_watts", "gauge", "What the power budget above it grants.");
  for (const auto& g : all)
    out += fmt::format("troupe_power_cap_watts{{job={},parent={}}} {}\n", name,
                       label_value(g.parent), g.cap_w);
  out += metric_family("troupe_power_lease_seconds", "gauge", "What is left of its lease.");
  for (const auto& g : all)
    out += fmt::format("troupe_power_lease_seconds{{job={},parent={}}} {}\n", name,
                       label_value(g.parent), static_cast<double>(g.lease_left_ms) / 1e3);
  return out;
}

}  // namespace troupe::apps::power_verb
