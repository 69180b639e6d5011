// What-if reports for a person and for programs.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trace/text.hpp"
#include "trace/whatif_policy.hpp"

namespace troupe::trace {

namespace {

std::string seconds_text(double s) {
  return duration_text(static_cast<int64_t>(s * 1e9));
}

/// "without rank 5", "with even micro-batches".
std::string without_text(const straggler_cause& c, const whatif_layout& layout) {
  switch (c.what) {
    case straggler_class::slow_host:
    case straggler_class::slow_device: {
      std::string out = "without";
      for (size_t i = 0; i < c.cells.size(); ++i) {
        if (i == 4 && c.cells.size() > 5)
          return out + fmt::format(" and {} more", c.cells.size() - i);
        out += (i == 0 ? " " : ", ") + cell_name(layout, c.cells[i]);
      }
      return out;
    }
    case straggler_class::slow_link:
      return "with that link like the others";
    case straggler_class::last_stage:
    case straggler_class::uneven_layers:
      return "with even stages";
    case straggler_class::sequence_lengths:
      return "with even micro-batches";
    default:
      return "without time between operations";
  }
}

/// What to do about it.
std::string_view remedy(straggler_class c) {
  switch (c) {
    case straggler_class::slow_host:
      return "look at the node's processors, memory and neighbours, or replace it";
    case straggler_class::slow_device:
      return "look at its clock, temperature and who else uses it, or replace its node";
    case straggler_class::slow_link:
      return "look at the link's errors and its other traffic";
    case straggler_class::last_stage:
      return "give the last stage fewer layers: the head and the loss are work, too";
    case straggler_class::uneven_layers:
      return "move layers from this stage to others";
    case straggler_class::sequence_lengths:
      return "pack sequences so that micro-batches are of like work";
    default:
      return "look at what hosts do between operations: loaders, other programs, garbage "
             "collection";
  }
}

/// Eight steps of slowdown, the last for what is as slow as the slowest.
std::string map_line(const straggler_report& r, const whatif_layout& l, int32_t stage) {
  constexpr std::string_view steps[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double most = whatif_policy::least_slowdown;
  for (const auto& c : r.cells) most = std::max(most, c.slowdown);
  std::string out;
  for (int32_t d = 0; d < l.data; ++d) {
    const auto s = r.cells[l.cell(d, stage)].slowdown;
    const auto at = std::clamp((s - 1) / (most - 1), 0.0, 1.0) * (std::size(steps) - 1);
    out += steps[static_cast<size_t>(at + 0.5)];
  }
  return out;
}

constexpr int32_t widest_map = 120, highest_map = 64;

/// What goes with the worst ranks and the last stage. Of next to nothing a share may be any number,
/// and ranks without which a step would take longer have none.
std::string shares_text(const straggler_report& r, const whatif_layout& layout) {
  constexpr double least_lost = 1.01;
  if (r.s < least_lost) return "M_W        -  nothing is lost: less than 1 %\n";
  auto out = fmt::format("M_W  {:>7.3f}  of what is lost goes with the worst 3 % of ranks\n",
                         std::max(0.0, r.m_w));
  if (layout.pipeline > 1)
    out += fmt::format("M_S  {:>7.3f}  of what is lost goes with the last stage\n",
                       std::max(0.0, r.m_s));
  return out;
}

}  // namespace

std::string stragglers_text(const straggler_report& r, const whatif_layout& layout) {
  auto out = fmt::format(
      "{} a step over {} steps of {} x {} ranks (data x pipeline), {} if all were "
      "alike: {:.3f} times slower\n",
      seconds_text(r.t_s), r.steps, layout.data, layout.pipeline, seconds_text(r.ideal_s), r.s);
  for (const auto& c : r.causes)
    out += fmt::format("{} a step, {} {}: {}{}{}\n",
                       seconds_text(c.what == straggler_class::host_noise ? r.recorded_s : r.t_s),
                       seconds_text(c.without_s), without_text(c, layout), to_string(c.what),
                       c.where.empty() ? "" : " ", c.where);
  if (r.causes.empty())
    out += r.s < whatif_policy::least_slowdown ? "nothing holds the steps up\n"
                                               : "no single cause explains a quarter of it\n";
  for (const auto& c : r.causes)
    out += fmt::format("hint: {}: {}\n", to_string(c.what), remedy(c.what));
  out += fmt::format("\nS    {:>7.3f}  slowdown against ideal\n", r.s);
  out += shares_text(r, layout);
  if (layout.data <= widest_map && layout.pipeline <= highest_map && layout.cells() > 1) {
    out += "\nslowdown by rank: data ranks across, stages down\n";
    for (int32_t p = 0; p < layout.pipeline; ++p)
      out += fmt::format("{:>4} |{}|\n", p, map_line(r, layout, p));
  }
  std::vector<std::vector<std::string>> rows{{"operation", "alone slows by", "least mean", "most"}};
  for (size_t o = 0; o < whatif_ops; ++o) {
    if (r.slowdown_by_op[o] <= 0) continue;
    double least = 0, most = 0;
    for (const auto& c : r.cells) {
      if (c.mean_s[o] > 0 && (least <= 0 || c.mean_s[o] < least)) least = c.mean_s[o];
      most = std::max(most, c.mean_s[o]);
    }
    rows.push_back({std::string(to_string(static_cast<whatif_op>(o))),
                    fmt::format("{:.3f}", r.slowdown_by_op[o]), seconds_text(least),
                    seconds_text(most)});
  }
  out += "\n" + table_text(std::move(rows), 0);
  if (r.left_out > 0)
    out += fmt::format("\nnote: {} steps are not whole and were left out\n", r.left_out);
  if (layout.data == 1 && layout.pipeline > 1)
    out += "\nnote: each stage is of one rank: a slow rank and a stage with more work look alike\n";
  return out;
}

std::string stragglers_json(const straggler_report& r, const whatif_layout& layout) {
  nlohmann::ordered_json out;
  out["type"] = "stragglers";
  out["version"] = 1;
  out["data"] = layout.data;
  out["pipeline"] = layout.pipeline;
  out["steps"] = r.steps;
  out["left_out"] = r.left_out;
  out["recorded_s"] = r.recorded_s;
  out["t_s"] = r.t_s;
  out["ideal_s"] = r.ideal_s;
  out["S"] = r.s;
  out["M_W"] = r.m_w;
  out["M_S"] = r.m_s;
  out["forward_backward_correlation"] = r.forward_backward;
  auto& cells = out["cells"] = nlohmann::ordered_json::array();
  for (size_t c = 0; c < r.cells.size(); ++c) {
    nlohmann::ordered_json row;
    row["data"] = r.cells[c].data;
    row["pipeline"] = r.cells[c].pipeline;
    row["S_w"] = r.cells[c].slowdown;
    if (!layout.names.empty()) row["name"] = layout.names[c];
    if (!layout.hosts.empty()) row["node"] = layout.hosts[c];
    for (size_t o = 0; o < whatif_ops; ++o)
      if (r.cells[c].mean_s[o] > 0)
        row["mean_s"][std::string(to_string(static_cast<whatif_op>(o)))] = r.cells[c].mean_s[o];
    cells.push_back(std::move(row));
  }
  auto& ops = out["operations"] = nlohmann::ordered_json::object();
  for (size_t o = 0; o < whatif_ops; ++o)
    if (r.slowdown_by_op[o] > 0)
      ops[std::string(to_string(static_cast<whatif_op>(o)))] = r.slowdown_by_op[o];
  auto& classes = out["classes"] = nlohmann::ordered_json::array();
  for (const auto& c : r.causes) {
    nlohmann::ordered_json row;
    row["class"] = to_string(c.what);
    row["share"] = c.share;
    row["without_s"] = c.without_s;
    row["where"] = c.where;
    auto& in = row["cells"] = nlohmann::ordered_json::array();
    for (const auto cell : c.cells)
      in.push_back({{"data", r.cells[cell].data}, {"pipeline", r.cells[cell].pipeline}});
    if (c.stage >= 0) row["stage"] = c.stage;
    classes.push_back(std::move(row));
  }
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace troupe::trace
