// A frontier as text, JSON and a plan of clocks.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/power/frontier.hpp"
#include "io/base/counted.hpp"
#include "trace/text.hpp"

namespace troupe::apps::power_verb {

namespace {

using nlohmann::ordered_json;
using troupe::power::frontier_point;

/// Rows of the table that a person reads.
constexpr size_t points_told = 12;

/// The lower bound of any clocks in a step of `step_s`.
double bound_in_j(const frontier_told& t, const frontier_point& p, double step_s) {
  return p.bound_j + t.energy_in_j(p, step_s) - p.cost.energy_j;
}

ordered_json point_json(const frontier_point& p) {
  return {{"time_s", p.cost.time_s}, {"energy_j", p.cost.energy_j}, {"bound_j", p.bound_j}};
}

ordered_json points_json(const std::vector<frontier_point>& points) {
  auto out = ordered_json::array();
  for (const auto& p : points) out.push_back(point_json(p));
  return out;
}

double above_bound_at_most(const frontier_told& t) {
  double out = 0;
  for (const auto& p : t.found.own) out = std::max(out, p.cost.energy_j / p.bound_j - 1);
  return out;
}

std::string percent(double share) {
  return fmt::format("{:.2f} %", 100 * share);
}

}  // namespace

double frontier_told::energy_in_j(const frontier_point& p, double length_s) const {
  const double waited_s = std::max(0.0, length_s - p.cost.time_s);
  return p.cost.energy_j + waited_s * policy.blocking_w() * policy.dag().stages();
}

double frontier_told::saved() const {
  const double s = highest_cost.time_s;
  return 1 - energy_in_j(found.at(s), s) / highest_cost.energy_j;
}

double frontier_told::saved_at_most() const {
  const double s = highest_cost.time_s;
  return 1 - bound_in_j(*this, found.at(s), s) / highest_cost.energy_j;
}

std::string frontier_text(const frontier_told& t) {
  const auto& dag = t.policy.dag();
  auto out = fmt::format(
      "{} of a step's energy is saved at unchanged step time: {:.6g} J in place of {:.6g} J, "
      "{:.6g} s; no clocks save more than {}\n"
      "{}, {}, {} W while a device waits\n",
      percent(t.saved()), t.energy_in_j(t.found.at(t.highest_cost.time_s), t.highest_cost.time_s),
      t.highest_cost.energy_j, t.highest_cost.time_s, percent(t.saved_at_most()),
      counted(dag.stages(), "stage"), counted(dag.micro_batches(), "micro-batch", "micro-batches"),
      t.policy.blocking_w());
  if (t.step_s) {
    const auto& p = t.shown();
    out += fmt::format(
        "the plan for a step of {:.6g} s: the pipeline ends after {:.6g} s, the "
        "step takes {:.6g} J\n",
        *t.step_s, p.cost.time_s, t.energy_in_j(p, std::max(*t.step_s, p.cost.time_s)));
  }
  std::vector<std::vector<std::string>> table = {
      {"step", "energy", "time", "energy", "above optimum, at most"}};
  const auto& own = t.found.own;
  const size_t rows = std::min(points_told, own.size());
  for (size_t i = 0; i < rows; ++i) {
    const auto& p = own[rows == 1 ? 0 : i * (own.size() - 1) / (rows - 1)];
    table.push_back(
        {fmt::format("{:.6g} s", p.cost.time_s), fmt::format("{:.6g} J", p.cost.energy_j),
         fmt::format("{:+.2f} %", 100 * (p.cost.time_s / t.highest_cost.time_s - 1)),
         fmt::format("{:+.2f} %", 100 * (p.cost.energy_j / t.highest_cost.energy_j - 1)),
         percent(p.cost.energy_j / p.bound_j - 1)});
  }
  out += "\n" + trace::table_text(std::move(table), 0);
  return out + fmt::format(
                   "{}, the last is the least energy; {} more for a step that "
                   "something else holds up\n",
                   counted(own.size(), "point"), t.found.held.size());
}

std::string frontier_json(const frontier_told& t) {
  ordered_json j = {{"format", 1},
                    {"stages", t.policy.dag().stages()},
                    {"micro_batches", t.policy.dag().micro_batches()},
                    {"blocking_w", t.policy.blocking_w()},
                    {"highest_clocks",
                     {{"time_s", t.highest_cost.time_s}, {"energy_j", t.highest_cost.energy_j}}},
                    {"saved", t.saved()},
                    {"saved_at_most", t.saved_at_most()},
                    {"above_bound_at_most", above_bound_at_most(t)}};
  if (t.step_s) {
    const auto& p = t.shown();
    auto chosen = point_json(p);
    const double step_s = std::max(*t.step_s, p.cost.time_s);
    chosen["step_s"] = step_s;
    chosen["step_energy_j"] = t.energy_in_j(p, step_s);
    j["chosen"] = std::move(chosen);
  }
  j["points"] = points_json(t.found.own);
  j["held_points"] = points_json(t.found.held);
  return j.dump();
}

std::string frontier_plan(const frontier_told& t) {
  const auto& nodes = t.policy.dag().nodes();
  const auto& clocks = t.shown().clocks;
  std::string out = "stage,instruction,micro_batch,frequency\n";
  for (int stage = 0; stage < t.policy.dag().stages(); ++stage)
    for (size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].stage == stage)
        out += fmt::format("{},{},{},{}\n", stage, to_string(nodes[i].which), nodes[i].micro_batch,
                           t.policy.profile().rows(stage, nodes[i].which)[clocks[i]].frequency_mhz);
  return out;
}

}  // namespace troupe::apps::power_verb
