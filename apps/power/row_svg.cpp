// The picture of a simulated row: watts against the budget, when which clocks were locked, brakes.
// Light or dark, as the reader's screen is. Drawn as text, as the picture of simulated days.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/power/power.hpp"
#include "apps/power/row_style.hpp"
#include "apps/svg.hpp"
#include "io/base/counted.hpp"

namespace troupe::apps::power_verb {

namespace {

using svg::area, svg::label, svg::line;

constexpr double plot_left = 84, plot_right = 60, plot_top = 92, plot_w = 960, plot_h = 300;
constexpr double strip_h = 18, strip_gap = 10;

/// What the ticks of one column of the picture come to.
struct column {
  double least = 1e9, most = 0, mean = 0;
  int lp_mhz = 0, hp_mhz = 0;  ///< the lowest
  bool braked = false;
};

class row_drawing {
 public:
  explicit row_drawing(const row_told& t) : t_(t), rules_(t.options.rules()) {
    const auto wanted = std::min<size_t>(t.ticks.size(), static_cast<size_t>(plot_w));
    for (size_t i = 0; i < wanted; ++i) {
      columns_.push_back(column_of(i * t.ticks.size() / wanted, (i + 1) * t.ticks.size() / wanted));
      top_ = std::max(top_, columns_.back().most);
    }
    top_ = std::ceil(top_ * 10 + 0.2) / 10;
  }

  std::string draw() const {
    const double w = plot_left + plot_w + plot_right;
    const double h = strips_top() + 3 * (strip_h + strip_gap) + 44;
    return svg::opening(w, h) + std::string(row_style) + area(0, 0, w, h, "paper") + heading() +
           grid() + power() + levels() + strips() + legend(h - 14) + "</svg>\n";
  }

 private:
  column column_of(size_t from, size_t to) const {
    column c;
    c.lp_mhz = c.hp_mhz = rules_.max_mhz;
    double sum = 0;
    for (size_t i = from; i < to; ++i) {
      const auto& tick = t_.ticks[i];
      c.least = std::min(c.least, static_cast<double>(tick.power));
      c.most = std::max(c.most, static_cast<double>(tick.power));
      sum += static_cast<double>(tick.power);
      c.lp_mhz = std::min(c.lp_mhz, rules_.lp_mhz(tick.level));
      c.hp_mhz = std::min(c.hp_mhz, rules_.hp_mhz(tick.level));
      c.braked |= tick.brake != power::row_brake::off;
    }
    c.mean = sum / static_cast<double>(std::max<size_t>(1, to - from));
    return c;
  }

  double x_of(size_t i) const {
    return plot_left + plot_w * static_cast<double>(i) / static_cast<double>(columns_.size());
  }
  double y_of(double power) const { return plot_top + plot_h * (1 - power / top_); }
  static double strips_top() { return plot_top + plot_h + 46; }

  std::string heading() const {
    const auto& o = t_.options;
    return label(24, 34,
                 fmt::format("{} under {:.0f} kW: {}", counted(o.servers, "server"),
                             o.budget_w / 1000, counted(t_.outcome.brakes, "brake")),
                 "class=\"title\"") +
           label(
               24, 58,
               fmt::format("{} {}, {:+g} % servers, clocks follow in {:g} s, seed {}; each column "
                           "the least, mean and greatest of {:.0f} minutes",
                           t_.policy, thresholds_text(o), added_percent(o), o.actuation_s, o.seed,
                           minutes_a_column()),
               "class=\"faint\"");
  }

  double minutes_a_column() const {
    return static_cast<double>(t_.ticks.size()) * t_.options.telemetry_s / 60 /
           static_cast<double>(std::max<size_t>(1, columns_.size()));
  }

  std::string grid() const {
    std::string out;
    for (double p = 0; p <= top_ + 1e-9; p += 0.1) {
      out += line(plot_left, y_of(p), plot_left + plot_w, y_of(p), "grid");
      out += label(plot_left - 8, y_of(p) + 4,
                   fmt::format("{:.0f} kW", p * t_.options.budget_w / 1000),
                   "text-anchor=\"end\" class=\"faint\"");
    }
    const double days = static_cast<double>(t_.ticks.size()) * t_.options.telemetry_s / 86'400;
    const double each = days > 14 ? 7 : 1;
    for (double day = 0; day <= days + 1e-9; day += each) {
      const double x = plot_left + plot_w * day / std::max(days, 1e-9);
      out += line(x, plot_top + plot_h, x, plot_top + plot_h + 5, "axis");
      out += label(x, plot_top + plot_h + 20, fmt::format("{:g}", day),
                   "text-anchor=\"middle\" class=\"faint\"");
    }
    return out + label(plot_left - 8, plot_top + plot_h + 20, "day",
                       "text-anchor=\"end\" class=\"faint\"");
  }

  std::string power() const {
    std::string upper, lower, mean;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const double x = x_of(i) + 0.5;
      upper += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x, y_of(columns_[i].most));
      mean += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x, y_of(columns_[i].mean));
      const auto back = columns_.size() - 1 - i;
      lower += fmt::format("L{:.1f} {:.1f}", x_of(back) + 0.5, y_of(columns_[back].least));
    }
    return fmt::format("<path d=\"{}{}Z\" class=\"band\"/>\n<path d=\"{}\" class=\"mean\"/>\n",
                       upper, lower, mean);
  }

  std::string levels() const {
    const double right = plot_left + plot_w;
    auto out = line(plot_left, y_of(1), right, y_of(1), "budget");
    out += label(right + 4, y_of(1) + 4, "budget");
    double last = 2;
    for (size_t i = 0; i < rules_.rung_count; ++i) {
      const double t = rules_.rungs[i].threshold;
      if (t == last) continue;
      last = t;
      out += line(plot_left, y_of(t), right, y_of(t), "t");
      out += label(right + 4, y_of(t) + 4, fmt::format("{:g} %", 100 * t));
    }
    return out;
  }

  /// How far a clock is below the maximum.
  std::string_view shade(int mhz) const {
    return cap_shade(static_cast<double>(mhz) / rules_.max_mhz);
  }

  template <class Shade>
  std::string strip(double y, std::string_view name, Shade shade_of) const {
    auto out = label(plot_left - 8, y + 13, name, "text-anchor=\"end\"") +
               area(plot_left, y, plot_w, strip_h, "empty");
    for (size_t i = 0; i < columns_.size();) {
      const std::string_view kind = shade_of(columns_[i]);
      size_t end = i + 1;
      while (end < columns_.size() && shade_of(columns_[end]) == kind) ++end;
      if (!kind.empty()) out += area(x_of(i), y, x_of(end) - x_of(i), strip_h, kind);
      i = end;
    }
    return out;
  }

  std::string strips() const {
    const double y = strips_top(), each = strip_h + strip_gap;
    return strip(y, "low", [&](const column& c) { return shade(c.lp_mhz); }) +
           strip(y + each, "high", [&](const column& c) { return shade(c.hp_mhz); }) +
           strip(y + 2 * each, "brake", [](const column& c) {
             return c.braked ? std::string_view("brake") : std::string_view();
           });
  }

  std::string legend(double y) const {
    std::string out;
    double x = plot_left;
    for (const auto& [kind, what] : {std::pair{"cap1", "clocks above 85 % of the maximum"},
                                     {"cap2", "70 to 85 %"},
                                     {"cap3", "below 70 %"},
                                     {"brake", "the brake was not off"}}) {
      out += area(x, y - 10, 12, 12, kind) + label(x + 18, y, what);
      x += x == plot_left ? 270 : 150;
    }
    return out;
  }

  const row_told& t_;
  power::row_rules rules_;
  std::vector<column> columns_;
  double top_ = 1;
};

}  // namespace

std::string row_svg(const row_told& told) {
  return row_drawing(told).draw();
}

}  // namespace troupe::apps::power_verb
