// Bars, points around a diagonal, and lines over an axis.
#include "apps/predict/pictures.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "apps/svg.hpp"

namespace troupe::apps::predict {

namespace {

using svg::area, svg::escaped, svg::label, svg::line;

constexpr std::string_view picture_style = R"(<style>
text { fill: #222222; font: 12px system-ui, Helvetica, Arial, sans-serif }
.paper { fill: #ffffff } .faint { fill: #666666 } .title { font-size: 17px; font-weight: 600 }
.axis { stroke: #888888 } .grid { stroke: #e6e6e6 }
.more { fill: #2e6da4 } .less { fill: #b3541e } .mark { stroke: #222222; stroke-width: 2 }
.first { fill: none; stroke: #2e6da4; stroke-width: 2 }
.second { fill: none; stroke: #b3541e; stroke-width: 2 }
.in { fill: #2e6da4; fill-opacity: .55 } .out { fill: #c0392b; fill-opacity: .8 }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e4e4 } .paper { fill: #16191d } .faint { fill: #a0a6ad }
  .axis { stroke: #8a9199 } .grid { stroke: #2c3238 }
  .more { fill: #6fb1ea } .less { fill: #f0a064 } .mark { stroke: #e4e4e4 }
  .first { stroke: #6fb1ea } .second { stroke: #f0a064 }
  .in { fill: #6fb1ea } .out { fill: #ff6f61 }
}
</style>
)";

constexpr double picture_margin = 24, picture_top = 64;

/// As wide as it is to be, or as its title is.
std::string begun(double w, double h, const std::string& title, const std::string& note = "") {
  constexpr double title_w = 10.6;  // a character of most fonts takes less
  w = std::max(w, 2 * picture_margin + title_w * static_cast<double>(title.size()));
  return svg::opening(w, h) + std::string(picture_style) + area(0, 0, w, h, "paper") +
         label(picture_margin, 32, escaped(title), "class=\"title\"") +
         (note.empty() ? "" : label(picture_margin, 51, escaped(note), svg::faint));
}

/// Room for a text of the small print; of most fonts it takes less.
double room_for(size_t characters) {
  return 7.0 * static_cast<double>(characters);
}

/// As much of a name as has room.
std::string cut_name(const std::string& name) {
  constexpr size_t most = 36;
  return name.size() <= most ? name : name.substr(0, most - 3) + "...";
}

/// The ends of bars around zero.
struct bars_range {
  double least = 0, most = 0;
  double whole() const { return most > least ? most - least : 1; }
};

bars_range range_of(const std::vector<picture_bar>& bars) {
  bars_range r;
  for (const auto& b : bars) {
    r.least = std::min({r.least, b.length, b.mark.value_or(0)});
    r.most = std::max({r.most, b.length, b.mark.value_or(0)});
  }
  return r;
}

/// A plot with a linear axis each way, from 0.
struct line_plot {
  double left = 70, top = picture_top, side_x = 520, side_y = 320;
  double most_x = 1, most_y = 1, step_x = 0;  ///< a step of 0: a fifth

  double x(double value) const { return left + side_x * value / most_x; }
  double y(double value) const { return top + side_y * (1 - value / most_y); }

  std::string grid(std::string_view unit) const {
    std::string out;
    for (int i = 0; i <= 5; ++i) {
      const double v = most_y * i / 5;
      out += line(left, y(v), left + side_x, y(v), "grid");
      out += label(left - 8, y(v) + 4, fmt::format("{:.3g}{}", v, unit), svg::faint_end);
    }
    const double step = step_x > 0 ? step_x : most_x / 5;
    for (double at = 0; at <= most_x * (1 + 1e-9); at += step)
      out += label(x(at), top + side_y + 18, fmt::format("{:.3g}{}", at, unit), svg::faint_middle);
    return out + line(left, y(0), left + side_x, y(0), "axis");
  }
  std::string path(const std::vector<std::pair<double, double>>& points,
                   std::string_view kind) const {
    std::string d;
    for (const auto& [at, value] : points)
      d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", x(at), y(value));
    return fmt::format("<path d=\"{}\" class=\"{}\"/>\n", d, kind);
  }
  std::string below(std::string_view what) const {
    return label(left + side_x / 2, top + side_y + 42, what, svg::faint_middle);
  }
};

/// A square of a colour with what it stands for.
std::string legend_of(double x, double y, std::string_view kind, std::string_view what) {
  return area(x, y - 10, 12, 12, kind) + label(x + 18, y, what, svg::faint);
}

}  // namespace

std::string bars_picture(const std::string& title, const std::vector<picture_bar>& bars,
                         const std::string& note) {
  constexpr double names_w = 250, bars_w = 460, bar_h = 20;
  size_t longest = 0;
  for (const auto& b : bars) longest = std::max(longest, b.told.size());
  const auto range = range_of(bars);
  const double zero = picture_margin + names_w + bars_w * -range.least / range.whole();
  const double h = picture_top + bar_h * static_cast<double>(bars.size()) + picture_margin;
  auto out = begun(2 * picture_margin + names_w + bars_w + room_for(longest) + 6, h, title, note);
  double y = picture_top;
  for (const auto& b : bars) {
    const double to = zero + bars_w * b.length / range.whole();
    const double mark = zero + bars_w * b.mark.value_or(0) / range.whole();
    out += label(picture_margin + names_w - 8, y + 13, escaped(cut_name(b.label)),
                 "text-anchor=\"end\"");
    out += area(std::min(zero, to), y + 2, std::abs(to - zero), bar_h - 5,
                b.length < 0 || b.other ? "less" : "more");
    if (b.mark) out += line(mark, y, mark, y + bar_h - 1, "mark");
    out +=
        label(std::max({zero, to, b.mark ? mark : zero}) + 6, y + 13, escaped(b.told), svg::faint);
    y += bar_h;
  }
  return out + line(zero, picture_top - 4, zero, y, "axis") + "</svg>\n";
}

std::string measured_picture(const std::string& title, const std::vector<judged_value>& values) {
  constexpr double side = 520, left = 70;
  double least = 1e300, most = 0;
  for (const auto& v : values) {
    least = std::min(least, v.predicted > 0 ? std::min(v.measured, v.predicted) : v.measured);
    most = std::max({most, v.measured, v.predicted});
  }
  const double from = std::log(least), whole = std::max(std::log(most) - from, 1e-9);
  const auto x = [&](double value) { return left + side * (std::log(value) - from) / whole; };
  const auto y = [&](double value) {
    return picture_top + side * (1 - (std::log(value) - from) / whole);
  };
  auto out = begun(left + side + picture_margin, picture_top + side + 60, title);
  for (int i = 0; i <= 4; ++i) {
    const double value = std::exp(from + whole * i / 4);
    out += line(left, y(value), left + side, y(value), "grid");
    out += label(left - 8, y(value) + 4, fmt::format("{:.4g}", value), svg::faint_end);
    out +=
        label(x(value), picture_top + side + 18, fmt::format("{:.4g}", value), svg::faint_middle);
  }
  out += line(x(least), y(least), x(most), y(most), "axis");
  for (const auto& v : values)
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" class=\"{}\"/>\n",
                       x(v.measured), y(std::max(v.predicted, least)), v.flagged ? "out" : "in");
  return out +
         label(left + side / 2, picture_top + side + 42,
               "measured; upwards: predicted; red: outside the training range", svg::faint_middle) +
         "</svg>\n";
}

std::string coverage_picture(const std::string& title, const std::vector<coverage_point>& points) {
  line_plot plot;
  plot.side_x = plot.side_y = 420;
  plot.most_x = plot.most_y = 100;
  auto out = begun(plot.left + plot.side_x + picture_margin, plot.top + plot.side_y + 60, title,
                   "above the line: intervals hold more than they promise") +
             plot.grid(" %") + line(plot.x(0), plot.y(0), plot.x(100), plot.y(100), "axis");
  std::vector<std::pair<double, double>> path{{0, 0}};
  for (const auto& p : points) path.emplace_back(p.asked, p.seen);
  out += plot.path(path, "first");
  for (const auto& p : points)
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" class=\"{}\"/>\n",
                       plot.x(p.asked), plot.y(p.seen), p.asked == 95 ? 6 : 3,
                       p.asked == 95 ? "less" : "more");
  return out + plot.below("asked for; upwards: seen; orange: the 95 % that predictions come with") +
         "</svg>\n";
}

std::string learning_picture(const std::string& title, const learning_curve& curve) {
  line_plot plot;
  plot.most_x = curve.passes.back();
  plot.step_x = std::max(1.0, std::ceil(plot.most_x / 5));
  double most = 0;
  for (const auto* losses : {&curve.learned, &curve.held})
    for (const double loss : *losses) most = std::max(most, loss);
  plot.most_y = svg::round_up(most);
  auto out = begun(plot.left + plot.side_x + picture_margin, plot.top + plot.side_y + 84, title,
                   "Huber loss of what the trunk leaves, in standard deviations of it") +
             plot.grid("");
  const auto path_of = [&](const std::vector<double>& losses, std::string_view kind) {
    std::vector<std::pair<double, double>> path;
    for (size_t i = 0; i < losses.size(); ++i) path.emplace_back(curve.passes[i], losses[i]);
    return plot.path(path, kind);
  };
  out += path_of(curve.learned, "first");
  if (!curve.held.empty()) out += path_of(curve.held, "second");
  const double y = plot.top + plot.side_y + 66;
  out += plot.below("passes over the rows") + legend_of(plot.left, y, "more", "rows learned from");
  if (!curve.held.empty())
    out += legend_of(plot.left + 180, y, "less", "rows that it did not learn from");
  return out + "</svg>\n";
}

std::string attention_picture(const std::string& title, const std::vector<attended_bar>& all,
                              const std::string& note) {
  constexpr double names_w = 250, bars_w = 420, told_w = 110, bar_h = 30, half_h = 12;
  double share = 0, points = 0;
  for (const auto& one : all) {
    share = std::max(share, one.share);
    points = std::max(points, one.points);
  }
  const double zero = picture_margin + names_w;
  const double end = picture_top + bar_h * static_cast<double>(all.size());
  auto out = begun(2 * picture_margin + names_w + bars_w + told_w, end + 48, title, note);
  double y = picture_top;
  for (const auto& one : all) {
    const double of_share = share > 0 ? bars_w * one.share / share : 0;
    const double of_points = points > 0 ? bars_w * std::max(one.points, 0.0) / points : 0;
    out += label(zero - 8, y + 17, escaped(cut_name(one.label)), "text-anchor=\"end\"");
    out += area(zero, y + 1, of_share, half_h, "more");
    out += area(zero, y + 1 + half_h, of_points, half_h, "less");
    out += label(zero + of_share + 6, y + 11, fmt::format("{:.1f} %", 100 * one.share), svg::faint);
    out +=
        label(zero + of_points + 6, y + 23, fmt::format("{:+.2f} points", one.points), svg::faint);
    y += bar_h;
  }
  return out + line(zero, picture_top - 4, zero, end, "axis") +
         legend_of(zero, end + 30, "more", "share of the network's attention") +
         legend_of(zero + 230, end + 30, "less", "what it is worth: points of MAPE") + "</svg>\n";
}

}  // namespace troupe::apps::predict
