// The picture of a plan: with how many servers more the row's peak comes near its budget, how often
// no resample had a brake, and what the caps that make room cost. Light or dark, as the reader's
// screen is.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/power/power.hpp"
#include "apps/svg.hpp"
#include "io/base/counted.hpp"

namespace troupe::apps::power_verb {

namespace {

using svg::area, svg::label, svg::line, svg::faint, svg::faint_end, svg::faint_middle;

constexpr std::string_view plan_style = R"(<style>
text { fill: #222222; font: 12px system-ui, Helvetica, Arial, sans-serif }
.paper { fill: #ffffff } .faint { fill: #666666 } .title { font-size: 19px; font-weight: 600 }
.grid { stroke: #e6e6e6 } .axis { stroke: #666666 }
.fits { fill: #9cc3e6 } .beyond { fill: #e3a39b } .answer { fill: #1f5f99 }
.budget { stroke: #c0392b; stroke-width: 1.6 }
.t { stroke: #7d4e00; stroke-width: 1.6 }
.low { fill: none; stroke: #b3541e; stroke-width: 2 } .lowdot { fill: #b3541e }
.high { fill: none; stroke: #1f5f99; stroke-width: 2; stroke-dasharray: 6 3 }
.highdot { fill: #1f5f99 }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e4e4 } .paper { fill: #16191d } .faint { fill: #a0a6ad }
  .grid { stroke: #2c3238 } .axis { stroke: #8a9199 }
  .fits { fill: #2f5878 } .beyond { fill: #7a352d } .answer { fill: #8cc4f0 }
  .budget { stroke: #ff6f61 } .t { stroke: #f0b04a }
  .low { stroke: #f0a064 } .lowdot { fill: #f0a064 }
  .high { stroke: #8cc4f0 } .highdot { fill: #8cc4f0 }
}
</style>
)";

class plan_drawing {
  static constexpr double left = 84, right = 84, top = 92, plot_w = 900;
  static constexpr double peak_h = 240, part_h = 120, part_gap = 58;

 public:
  explicit plan_drawing(const plan_told& t) : t_(t) {
    most_ = 1.0;
    for (const auto& r : t.plan.rows) most_ = std::max(most_, r.peak);
    most_ = std::ceil(most_ * 10 + 0.2) / 10;
  }

  std::string draw() const {
    const double w = left + plot_w + right;
    const double capped_y = top + peak_h + part_gap + 14, slower_y = capped_y + part_h + part_gap;
    const double h = slower_y + part_h + 44;
    double slowest = 0.1;
    for (const auto& r : t_.plan.rows)
      slowest = std::max({slowest, 100 * (r.lp_slowdown - 1), 100 * (r.hp_slowdown - 1)});
    return svg::opening(w, h) + std::string(plan_style) + area(0, 0, w, h, "paper") + heading() +
           peaks() + bars() + clean() +
           part(capped_y, "time capped, % of it", 100,
                [](const sim::plan_row& r) {
                  return std::pair(100 * r.lp_capped, 100 * r.hp_capped);
                }) +
           part(slower_y, "requests slower, %", svg::round_up(slowest),
                [](const sim::plan_row& r) {
                  return std::pair(100 * (r.lp_slowdown - 1), 100 * (r.hp_slowdown - 1));
                }) +
           numbers(slower_y + part_h) + "</svg>\n";
  }

 private:
  double each() const { return plot_w / static_cast<double>(t_.plan.rows.size()); }
  double x_of(size_t i) const { return left + each() * (static_cast<double>(i) + 0.5); }
  double y_of(double power) const { return top + peak_h * (1 - power / most_); }

  std::string heading() const {
    return label(24, 34, t_.answer, "class=\"title\"") +
           label(24, 58,
                 fmt::format("{} under {:g} kW, {}; the greatest peak of {}, with "
                             "doubt added: watts {:+.1f} %",
                             counted(t_.servers, "server"), t_.budget_w / 1000, t_.policy,
                             counted(t_.resamples, "resample"), 100 * t_.plan.doubt),
                 faint);
  }

  std::string peaks() const {
    std::string out;
    for (double p = 0; p <= most_ + 1e-9; p += 0.2) {
      out += line(left, y_of(p), left + plot_w, y_of(p), "grid");
      out += label(left - 8, y_of(p) + 4, fmt::format("{:.0f} %", 100 * p), faint_end);
    }
    return out + label(left, top - 10, "peak, % of the budget; bars across them: T1 and T2", faint);
  }

  std::string bars() const {
    std::string out;
    const double w = std::min(44.0, each() * 0.7);
    for (size_t i = 0; i < t_.plan.rows.size(); ++i) {
      const auto& r = t_.plan.rows[i];
      const bool is_answer = t_.plan.fits && r.added == t_.plan.servers_added;
      const bool fits = t_.plan.fits && r.added < t_.plan.servers_added;
      out += area(x_of(i) - w / 2, y_of(r.peak), w, y_of(0) - y_of(r.peak),
                  is_answer ? "answer"
                  : fits    ? "fits"
                            : "beyond");
      for (const double t : {r.t1, r.t2})
        if (t > 0 && t < 1) out += line(x_of(i) - w / 2, y_of(t), x_of(i) + w / 2, y_of(t), "t");
      out += label(x_of(i), top + peak_h + 18, fmt::format("+{}", r.added), faint_middle);
    }
    return out + line(left, y_of(1), left + plot_w, y_of(1), "budget") +
           label(left + plot_w + 6, y_of(1) + 4, "budget");
  }

  /// How many resamples had no brake.
  std::string clean() const {
    auto out = label(left - 8, top + peak_h + 36, "no brake", faint_end);
    for (size_t i = 0; i < t_.plan.rows.size(); ++i)
      out += label(x_of(i), top + peak_h + 36,
                   fmt::format("{}/{}", t_.plan.rows[i].clean, t_.resamples), faint_middle);
    return out;
  }

  /// Two curves, of low and of high priority.
  template <class Of>
  std::string part(double y, std::string_view name, double whole, Of of) const {
    auto out = label(left, y - 10, name, faint);
    for (const double share : {0.0, 0.5, 1.0}) {
      const double at = y + part_h * (1 - share);
      out += line(left, at, left + plot_w, at, "grid");
      out += label(left - 8, at + 4, fmt::format("{:g}", whole * share), faint_end);
    }
    std::string low, high, dots;
    double low_y = 0, high_y = 0;
    for (size_t i = 0; i < t_.plan.rows.size(); ++i) {
      const auto [l, h] = of(t_.plan.rows[i]);
      low_y = y + part_h * (1 - std::clamp(l / whole, 0.0, 1.0));
      high_y = y + part_h * (1 - std::clamp(h / whole, 0.0, 1.0));
      low += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x_of(i), low_y);
      high += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x_of(i), high_y);
      dots += area(x_of(i) - 2.5, low_y - 2.5, 5, 5, "lowdot") +
              area(x_of(i) - 2.5, high_y - 2.5, 5, 5, "highdot");
    }
    // Names stand apart where the curves end together.
    const bool near = std::abs(low_y - high_y) < 14;
    const double apart = near ? (14 - std::abs(low_y - high_y)) / 2 : 0;
    const double down = low_y < high_y ? 1 : -1;
    return out +
           fmt::format("<path d=\"{}\" class=\"low\"/>\n<path d=\"{}\" class=\"high\"/>\n", low,
                       high) +
           dots + label(left + plot_w + 6, low_y + 4 - down * apart, "low priority") +
           label(left + plot_w + 6, high_y + 4 + down * apart, "high priority");
  }

  std::string numbers(double y) const {
    auto out =
        line(left, y, left + plot_w, y, "axis") + label(left - 8, y + 20, "servers", faint_end);
    for (size_t i = 0; i < t_.plan.rows.size(); ++i)
      out +=
          label(x_of(i), y + 20, std::to_string(t_.servers + t_.plan.rows[i].added), faint_middle);
    return out;
  }

  const plan_told& t_;
  double most_ = 1;
};

}  // namespace

std::string plan_svg(const plan_told& told) {
  return plan_drawing(told).draw();
}

}  // namespace troupe::apps::power_verb
