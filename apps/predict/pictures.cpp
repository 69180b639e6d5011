// Bars, and points around a diagonal.
#include "apps/predict/pictures.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/svg.hpp"

namespace troupe::apps::predict {

namespace {

using svg::area, svg::escaped, svg::label, svg::line;

constexpr std::string_view picture_style = R"(<style>
text { fill: #222222; font: 12px system-ui, Helvetica, Arial, sans-serif }
.paper { fill: #ffffff } .faint { fill: #666666 } .title { font-size: 17px; font-weight: 600 }
.axis { stroke: #888888 } .grid { stroke: #e6e6e6 }
.more { fill: #2e6da4 } .less { fill: #b3541e }
.in { fill: #2e6da4; fill-opacity: .55 } .out { fill: #c0392b; fill-opacity: .8 }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e4e4 } .paper { fill: #16191d } .faint { fill: #a0a6ad }
  .axis { stroke: #8a9199 } .grid { stroke: #2c3238 }
  .more { fill: #6fb1ea } .less { fill: #f0a064 } .in { fill: #6fb1ea } .out { fill: #ff6f61 }
}
</style>
)";

constexpr double picture_margin = 24, picture_top = 64;

std::string begun(double w, double h, const std::string& title) {
  return svg::opening(w, h) + std::string(picture_style) + area(0, 0, w, h, "paper") +
         label(picture_margin, 36, escaped(title), "class=\"title\"");
}

}  // namespace

std::string bars_picture(const std::string& title, const std::vector<picture_bar>& bars) {
  constexpr double names_w = 250, bars_w = 460, told_w = 90, bar_h = 20;
  double least = 0, most = 0;
  for (const auto& b : bars) {
    least = std::min(least, b.length);
    most = std::max(most, b.length);
  }
  const double whole = most > least ? most - least : 1;
  const double zero = picture_margin + names_w + bars_w * -least / whole;
  const double h = picture_top + bar_h * static_cast<double>(bars.size()) + picture_margin;
  auto out = begun(2 * picture_margin + names_w + bars_w + told_w, h, title);
  double y = picture_top;
  for (const auto& b : bars) {
    const double to = zero + bars_w * b.length / whole;
    out += label(picture_margin + names_w - 8, y + 13, escaped(b.label), "text-anchor=\"end\"");
    out += area(std::min(zero, to), y + 2, std::abs(to - zero), bar_h - 5,
                b.length >= 0 ? "more" : "less");
    out += label(std::max(zero, to) + 6, y + 13, escaped(b.told), svg::faint);
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

}  // namespace troupe::apps::predict
