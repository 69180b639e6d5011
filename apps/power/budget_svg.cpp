// The picture of what a served budget saw: watts against what it had and its thresholds, caps by
// class, brakes. As that of a simulated row (row_svg.cpp), by time of day.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "apps/power/power_show.hpp"
#include "apps/power/row_style.hpp"
#include "apps/report/report.hpp"
#include "apps/svg.hpp"
#include "io/base/counted.hpp"

namespace troupe::apps::power_verb {

namespace {

using svg::area, svg::label, svg::line;

constexpr double trace_left = 84, trace_right = 70, trace_top = 92, trace_w = 960, trace_h = 300;
constexpr double trace_strip_h = 18, trace_strip_gap = 10;
constexpr int grid_lines = 6;

/// Between two marks of the axis of time, in seconds: no more than ten of them.
double time_step(double span_s) {
  for (const double each : {1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0,
                            14'400.0, 43'200.0, 86'400.0})
    if (span_s <= 10 * each) return each;
  return 86'400 * std::ceil(span_s / 864'000);
}

class budget_drawing {
 public:
  explicit budget_drawing(const budget_told& t)
      : t_(t),
        columns_(columns_of(t.ticks, std::min<size_t>(t.ticks.size(), trace_w))),
        from_s_(t.ticks.front().t_s),
        span_s_(t.ticks.back().t_s - from_s_) {
    double most_w = 0;
    for (const auto& c : columns_)
      if (c.ticks > 0) most_w = std::max({most_w, c.most_w, c.last.budget_w});
    each_w_ = svg::round_up(most_w / grid_lines);
    top_w_ = each_w_ * std::ceil(most_w * 1.02 / each_w_);
  }

  std::string draw() const {
    const double w = trace_left + trace_w + trace_right;
    const double h = strips_top() + 3 * (trace_strip_h + trace_strip_gap) + 44;
    return svg::opening(w, h) + std::string(row_style) + area(0, 0, w, h, "paper") + heading() +
           grid() + watts() + levels() + strips() + legend(h - 14) + "</svg>\n";
  }

 private:
  double x_of(size_t i) const {
    return trace_left + trace_w * static_cast<double>(i) / static_cast<double>(columns_.size());
  }
  double y_of(double w) const { return trace_top + trace_h * (1 - w / top_w_); }
  static double strips_top() { return trace_top + trace_h + 46; }

  std::string heading() const {
    const auto sums = sums_of(t_.ticks);
    const auto begun = fmt::gmtime(static_cast<std::time_t>(from_s_));
    return label(24, 34,
                 fmt::format("{}{:.4g} W of {:.4g} W in the mean, {:.4g} W at most: {}",
                             sums.modelled ? "~" : "", sums.mean_w, t_.ticks.back().budget_w,
                             sums.most_w, counted(sums.brakes, "brake")),
                 "class=\"title\"") +
           label(24, 58,
                 fmt::format("{}, {} from {:%Y-%m-%d %H:%M:%S} UTC; each column the least, mean "
                             "and greatest of {:.3g} s",
                             svg::escaped(t_.file), report::duration(span_s_), begun,
                             span_s_ / static_cast<double>(columns_.size())),
                 svg::faint);
  }

  std::string grid() const {
    std::string out;
    for (double w = 0; w <= top_w_ * (1 + 1e-9); w += each_w_)
      out += line(trace_left, y_of(w), trace_left + trace_w, y_of(w), "grid") +
             label(trace_left - 8, y_of(w) + 4, fmt::format("{:g} W", w), svg::faint_end);
    const double each_s = time_step(span_s_);
    for (double at = std::ceil(from_s_ / each_s) * each_s; at <= from_s_ + span_s_; at += each_s) {
      const double x = trace_left + trace_w * (at - from_s_) / span_s_;
      const auto when = fmt::gmtime(static_cast<std::time_t>(at));
      out += line(x, trace_top + trace_h, x, trace_top + trace_h + 5, "axis") +
             label(x, trace_top + trace_h + 20,
                   each_s < 60         ? fmt::format("{:%H:%M:%S}", when)
                   : each_s < 86'400.0 ? fmt::format("{:%H:%M}", when)
                                       : fmt::format("{:%m-%d}", when),
                   svg::faint_middle);
    }
    return out + label(trace_left - 8, trace_top + trace_h + 20, "UTC", svg::faint_end);
  }

  /// Calls `one(from, to)` for each stretch of columns of which something is known.
  void known(const std::function<void(size_t, size_t)>& one) const {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].ticks == 0) continue;
      size_t end = i;
      while (end < columns_.size() && columns_[end].ticks > 0) ++end;
      one(i, end);
      i = end;
    }
  }

  std::string watts() const {
    std::string out;
    known([&](size_t from, size_t to) {
      std::string upper, lower, mean;
      for (size_t i = from; i < to; ++i) {
        const char* pen = i == from ? "M" : "L";
        const auto back = to - 1 - (i - from);
        upper += fmt::format("{}{:.1f} {:.1f}", pen, x_of(i) + 0.5, y_of(columns_[i].most_w));
        mean += fmt::format("{}{:.1f} {:.1f}", pen, x_of(i) + 0.5, y_of(columns_[i].mean_w));
        lower += fmt::format("L{:.1f} {:.1f}", x_of(back) + 0.5, y_of(columns_[back].least_w));
      }
      out += fmt::format("<path d=\"{}{}Z\" class=\"band\"/>\n<path d=\"{}\" class=\"mean\"/>\n",
                         upper, lower, mean);
    });
    return out;
  }

  /// What a column says, as a line of steps; 0: nothing. Without a name it has no label.
  std::string level(std::string_view kind, const std::function<double(const trace_column&)>& w_of,
                    const std::string& name) const {
    std::string path;
    double last_w = 0;
    known([&](size_t from, size_t to) {
      const char* pen = "M";  // no line across what has no such level
      for (size_t i = from; i < to; ++i) {
        const double w = w_of(columns_[i]);
        if (w > 0) {
          path += fmt::format("{}{:.1f} {:.1f}H{:.1f}", pen, x_of(i), y_of(w), x_of(i + 1));
          last_w = w;
        }
        pen = w > 0 ? "L" : "M";
      }
    });
    if (path.empty()) return {};
    const auto drawn = fmt::format("<path d=\"{}\" fill=\"none\" class=\"{}\"/>\n", path, kind);
    if (name.empty()) return drawn;
    return drawn + label(trace_left + trace_w + 4, y_of(last_w) + 4, name);
  }

  std::string levels() const {
    const auto& now = t_.ticks.back();
    std::string out;
    for (const auto& [share, mark] : {std::pair{now.t1, &power::budget_trace_row::t1},
                                      {now.t2, &power::budget_trace_row::t2},
                                      {now.t3, &power::budget_trace_row::t3}})
      out += level(
          "t", [m = mark](const auto& c) { return c.last.*m * c.last.budget_w; },
          share > 0 ? fmt::format("{:g} %", 100 * share) : std::string());
    return out + level(
                     "budget", [](const auto& c) { return c.last.budget_w; }, "budget");
  }

  template <class Shade>
  std::string strip(double y, std::string_view name, Shade shade_of) const {
    auto out = label(trace_left - 8, y + 13, name, "text-anchor=\"end\"") +
               area(trace_left, y, trace_w, trace_strip_h, "empty");
    for (size_t i = 0; i < columns_.size();) {
      const std::string_view kind = shade_of(columns_[i]);
      size_t end = i + 1;
      while (end < columns_.size() && shade_of(columns_[end]) == kind) ++end;
      if (!kind.empty()) out += area(x_of(i), y, x_of(end) - x_of(i), trace_strip_h, kind);
      i = end;
    }
    return out;
  }

  std::string strips() const {
    const double y = strips_top(), each = trace_strip_h + trace_strip_gap;
    return strip(y, "low", [](const auto& c) { return cap_shade(c.low); }) +
           strip(y + each, "high", [](const auto& c) { return cap_shade(c.high); }) +
           strip(y + 2 * each, "brake", [](const auto& c) {
             return c.brake != power::trace_brake::off ? std::string_view("brake")
                                                       : std::string_view();
           });
  }

  std::string legend(double y) const {
    std::string out;
    double x = trace_left;
    for (const auto& [kind, what] : {std::pair{"cap1", "caps above 85 % of ceilings"},
                                     {"cap2", "70 to 85 %"},
                                     {"cap3", "below 70 %"},
                                     {"brake", "a brake held work"}}) {
      out += area(x, y - 10, 12, 12, kind) + label(x + 18, y, what);
      x += x == trace_left ? 230 : 130;
    }
    return out;
  }

  const budget_told& t_;
  std::vector<trace_column> columns_;
  double from_s_, span_s_;
  double each_w_ = 1, top_w_ = 1;
};

}  // namespace

std::string budget_svg(const budget_told& told) {
  return budget_drawing(told).draw();
}

}  // namespace troupe::apps::power_verb
