// The picture of a frontier: the pipeline at its highest clocks, the same at the plan's, and the
// curve of time and energy. Colours follow the reader's scheme, light or dark.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "apps/power/frontier.hpp"
#include "io/base/counted.hpp"

namespace troupe::apps::power_verb {

namespace {

using troupe::power::clock_table;
using troupe::power::instruction;

constexpr double margin = 24, labels_w = 62, chart_w = 1040, stage_h = 22, curve_h = 200;
constexpr double heading_h = 84, part_gap = 62;
/// Paler is slower; the lowest clock is still seen.
constexpr double palest = 0.22;
/// From here on words on an operation have the paper's colour.
constexpr double strong = 0.6;
/// Boxes wider than this say their micro-batch.
constexpr double named_w = 15;

constexpr std::string_view frontier_style = R"(<style>
  svg { color: #222222; }
  text { fill: currentColor; }
  .paper, .named.strong { fill: #ffffff; }
  .soft { opacity: .7; }
  .wait { fill: #eef0f2; }
  .forward { fill: #2e6da4; }
  .backward { fill: #b3541e; }
  .named { font-size: 9px; text-anchor: middle; }
  .grid { stroke: #d8dce0; }
  .curve { fill: none; stroke: #2e6da4; stroke-width: 2; }
  .held { stroke-dasharray: 4 4; }
  .bound { fill: none; stroke: #888888; stroke-dasharray: 2 3; }
  .before { fill: #b3541e; }
  .after { fill: #2e6da4; }
  @media (prefers-color-scheme: dark) {
    svg { color: #e4e6e8; }
    .paper, .named.strong { fill: #16181b; }
    .wait { fill: #24282d; }
    .forward { fill: #6fb1ea; }
    .backward { fill: #f0a064; }
    .grid { stroke: #353b42; }
    .curve { stroke: #6fb1ea; }
    .before { fill: #f0a064; }
    .after { fill: #6fb1ea; }
  }
</style>
)";

std::string words(double x, double y, std::string_view what, std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, what);
}

std::string block(double x, double y, double w, double h, std::string_view more) {
  return fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" {}/>\n", x,
                     y, w, h, more);
}

class frontier_drawing {
 public:
  explicit frontier_drawing(const frontier_told& t)
      : t_(t), whole_s_(std::max(t.highest_cost.time_s, t.shown().cost.time_s)) {
    for (const auto& stage : t.policy.profile().stages)
      for (const auto& rows : stage) {
        lowest_mhz_ = std::min(lowest_mhz_, rows.back().frequency_mhz);
        highest_mhz_ = std::max(highest_mhz_, rows.front().frequency_mhz);
      }
  }

  std::string draw() const {
    const double pipeline_h = stage_h * t_.policy.dag().stages();
    const double after_y = heading_h + pipeline_h + part_gap;
    const double curve_y = after_y + pipeline_h + part_gap + 10;
    const double w = 2 * margin + labels_w + chart_w, h = curve_y + curve_h + 44;
    const auto& shown = t_.shown();
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
               "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" font-size=\"12\" "
               "font-family=\"system-ui,Helvetica,Arial,sans-serif\">\n",
               w, h) +
           std::string(frontier_style) + block(0, 0, w, h, "class=\"paper\"") + heading() +
           pipeline(heading_h, t_.highest,
                    fmt::format("Before, all at the highest clock: {:.4g} s, {:.5g} J",
                                t_.highest_cost.time_s, t_.highest_cost.energy_j)) +
           pipeline(
               after_y, shown.clocks,
               fmt::format("After: {:.4g} s, {:.5g} J", shown.cost.time_s, shown.cost.energy_j)) +
           curve(curve_y) + "</svg>\n";
  }

 private:
  double x_of(double s) const { return margin + labels_w + chart_w * s / whole_s_; }

  double strength_of(int mhz) const {
    if (highest_mhz_ == lowest_mhz_) return 1;
    return palest + (1 - palest) * (mhz - lowest_mhz_) / (highest_mhz_ - lowest_mhz_);
  }

  std::string heading() const {
    double x = margin + labels_w + 520;
    std::string legend;
    for (const auto which : {"forward", "backward"}) {
      for (const double strength : {palest, 0.5, 0.75, 1.0}) {
        legend += block(x, 24, 14, 12,
                        fmt::format("class=\"{}\" fill-opacity=\"{:.2f}\"", which, strength));
        x += 14;
      }
      legend += words(x + 6, 34, which);
      x += 84;
    }
    legend += block(x, 24, 14, 12, "class=\"wait\"") + words(x + 20, 34, "waits");
    legend +=
        words(margin + labels_w + 520, 54,
              fmt::format("pale {} MHz, full {} MHz", lowest_mhz_, highest_mhz_), "class=\"soft\"");
    return words(margin, 34,
                 fmt::format("{:.1f} % less energy at unchanged step time", 100 * t_.saved()),
                 "font-size=\"19\" font-weight=\"600\"") +
           words(
               margin, 54,
               fmt::format("{}, {}, {:g} W while a device waits",
                           counted(t_.policy.dag().stages(), "stage"),
                           counted(t_.policy.dag().micro_batches(), "micro-batch", "micro-batches"),
                           t_.policy.blocking_w()),
               "class=\"soft\"") +
           legend;
  }

  std::string pipeline(double top, const clock_table& clocks, const std::string& title) const {
    const auto& dag = t_.policy.dag();
    const auto& nodes = dag.nodes();
    auto out = words(margin, top - 8, title, "font-size=\"14\" font-weight=\"600\"");
    std::vector<double> lasting;
    for (size_t i = 0; i < nodes.size(); ++i) lasting.push_back(row_of(clocks, i).time_s);
    const auto ends = dag.ends(lasting);
    for (int s = 0; s < dag.stages(); ++s) {
      const double y = top + stage_h * s;
      out += words(margin, y + 15, fmt::format("stage {}", s), "class=\"soft\"");
      out += block(x_of(0), y + 1, x_of(ends.back()) - x_of(0), stage_h - 2, "class=\"wait\"");
    }
    for (size_t i = 0; i < nodes.size(); ++i)
      out +=
          operation(top, nodes[i], ends[i] - lasting[i], ends[i], row_of(clocks, i).frequency_mhz);
    const double y = top + stage_h * dag.stages() + 16;
    for (int i = 0; i <= 4; ++i)
      out += words(x_of(whole_s_ * i / 4), y, fmt::format("{:.3g} s", whole_s_ * i / 4),
                   "class=\"soft\" text-anchor=\"middle\"");
    return out;
  }

  const troupe::power::clock_row& row_of(const clock_table& clocks, size_t i) const {
    const auto& node = t_.policy.dag().nodes()[i];
    return t_.policy.profile().rows(node.stage, node.which)[clocks[i]];
  }

  std::string operation(double top, const troupe::power::pipeline_node& node, double from_s,
                        double to_s, int mhz) const {
    const double y = top + stage_h * node.stage, w = x_of(to_s) - x_of(from_s);
    const double gap = std::min(1.0, 0.1 * w);
    auto out = fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.0f}\" "
        "class=\"{}\" fill-opacity=\"{:.2f}\"><title>stage {} {} {}: {} MHz, "
        "{:.4g} s</title></rect>\n",
        x_of(from_s), y + 1, w - gap, stage_h - 2, to_string(node.which), strength_of(mhz),
        node.stage, to_string(node.which), node.micro_batch, mhz, to_s - from_s);
    if (w >= named_w)
      out += words(x_of(from_s) + w / 2, y + 14, std::to_string(node.micro_batch),
                   strength_of(mhz) < strong ? "class=\"named\"" : "class=\"named strong\"");
    return out;
  }

  std::string curve(double top) const {
    double least_s = std::numeric_limits<double>::infinity(), least_j = least_s;
    double most_s = t_.highest_cost.time_s, most_j = t_.highest_cost.energy_j;
    for (const auto* part : {&t_.found.own, &t_.found.held})
      for (const auto& p : *part) {
        least_s = std::min(least_s, p.cost.time_s);
        most_s = std::max(most_s, p.cost.time_s);
        least_j = std::min(least_j, p.bound_j);
        most_j = std::max(most_j, p.cost.energy_j);
      }
    const double left = margin + labels_w;
    const auto x = [&](double s) {
      return most_s > least_s ? left + chart_w * (s - least_s) / (most_s - least_s) : left;
    };
    const auto y = [&](double j) {
      return most_j > least_j ? top + curve_h * (most_j - j) / (most_j - least_j) : top;
    };
    auto out = words(margin, top - 14, "Time and energy of a step",
                     "font-size=\"14\" font-weight=\"600\"");
    for (int i = 0; i <= 4; ++i) {
      const double j = least_j + (most_j - least_j) * i / 4;
      const double s = least_s + (most_s - least_s) * i / 4;
      out += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
          "class=\"grid\"/>\n",
          left, y(j), left + chart_w, y(j));
      out += words(left - 8, y(j) + 4, fmt::format("{:.5g} J", j),
                   "class=\"soft\" text-anchor=\"end\"");
      out += words(x(s), top + curve_h + 18, fmt::format("{:.4g} s", s),
                   "class=\"soft\" text-anchor=\"middle\"");
    }
    const auto line = [&](const auto& points, std::string_view name, auto energy_of) {
      std::string at;
      for (const auto& p : points)
        at += fmt::format("{:.1f},{:.1f} ", x(p.cost.time_s), y(energy_of(p)));
      return fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", name, at);
    };
    out += line(t_.found.own, "bound", [](const auto& p) { return p.bound_j; });
    out += line(t_.found.own, "curve", [](const auto& p) { return p.cost.energy_j; });
    out += line(t_.found.held, "curve held", [](const auto& p) { return p.cost.energy_j; });
    const auto dot = [&](const troupe::power::table_cost& c, std::string_view name) {
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" class=\"{}\"/>\n",
                         x(c.time_s), y(c.energy_j), name) +
             words(x(c.time_s) + 9, y(c.energy_j) + 4, name);
    };
    return out + dot(t_.highest_cost, "before") + dot(t_.shown().cost, "after");
  }

  const frontier_told& t_;
  double whole_s_;
  int lowest_mhz_ = std::numeric_limits<int>::max(), highest_mhz_ = 0;
};

}  // namespace

std::string frontier_svg(const frontier_told& told) {
  return frontier_drawing(told).draw();
}

}  // namespace troupe::apps::power_verb
