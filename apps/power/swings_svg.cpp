// The picture of swings: the trace as it is, and below it as it would be, on one scale of watts and
// of time. Light or dark, as the reader's screen is.
#include <algorithm>

#include <fmt/format.h>

#include "apps/power/swings.hpp"
#include "apps/svg.hpp"

namespace troupe::apps::power_verb {

namespace {

using svg::area, svg::label, svg::line, svg::faint, svg::faint_end, svg::faint_middle;

constexpr std::string_view swings_style = R"(<style>
text { fill: #222222; font: 12px system-ui, Helvetica, Arial, sans-serif }
.paper { fill: #ffffff } .faint { fill: #666666 } .title { font-size: 19px; font-weight: 600 }
.second { font-size: 15px }
.grid { stroke: #e6e6e6 } .axis { stroke: #666666 } .tdp { stroke: #c0392b; stroke-width: 1.4 }
.as { fill: #e3a39b } .after { fill: #9cc3e6 } .dip { fill: #f5e6c8 }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e4e4 } .paper { fill: #16191d } .faint { fill: #a0a6ad }
  .grid { stroke: #2c3238 } .axis { stroke: #8a9199 } .tdp { stroke: #ff6f61 }
  .as { fill: #8a4138 } .after { fill: #2f6b96 } .dip { fill: #38301e }
}
</style>
)";

class swings_drawing {
  static constexpr double left = 84, right = 60, top = 118, plot_w = 960, part_h = 200,
                          part_gap = 64;

 public:
  explicit swings_drawing(const swings_told& t) : t_(t) {
    const auto& after = t.plan.together.watts;
    samples_ = std::max(t.watts.size(), after.size());
    for (const auto* x : {&t.watts, &after})
      for (const double w : *x) most_w_ = std::max(most_w_, w);
    most_w_ = std::max(most_w_, t.rules.tdp_w) * 1.04;
  }

  std::string draw() const {
    const double w = left + plot_w + right;
    const bool two = !t_.plan.wanted.empty();
    const double second = top + part_h + part_gap, h = (two ? second : top) + part_h + 52;
    auto out = svg::opening(w, h) + std::string(swings_style) + area(0, 0, w, h, "paper") +
               heading() + part(top, "as it is", t_.watts, "as", true);
    if (two) {
      std::string how;
      for (const auto r : t_.plan.wanted)
        how += (how.empty() ? "" : ", then ") +
               std::string(power::remedy_names[static_cast<size_t>(r)]);
      out += part(second, how, t_.plan.together.watts, "after", false);
    }
    return out + label(left + plot_w / 2, h - 12, "seconds", faint_middle) + "</svg>\n";
  }

 private:
  /// The answer, on two lines where it is long.
  std::string heading() const {
    const auto answer = swings_answer(t_);
    const auto end = answer.find("; ");
    auto out = label(24, 34, answer.substr(0, end), "class=\"title\"");
    if (end != answer.npos) out += label(24, 56, answer.substr(end + 2), "class=\"second\"");
    return out +
           label(24, 78,
                 fmt::format("each column the least to the greatest of {:.3g} s; the line is "
                             "the TDP, {:.5g} W",
                             static_cast<double>(samples_) * t_.step_s / plot_w, t_.rules.tdp_w),
                 faint);
  }

  double x_of(double sample) const {
    return left + plot_w * sample / static_cast<double>(std::max<size_t>(1, samples_));
  }
  double y_of(double y, double w) const { return y + part_h * (1 - w / most_w_); }

  std::string grid(double y) const {
    std::string out;
    const double each = svg::round_up(most_w_ / 8);
    for (double w = 0; w <= most_w_; w += each) {
      out += line(left, y_of(y, w), left + plot_w, y_of(y, w), "grid");
      out += label(left - 8, y_of(y, w) + 4, fmt::format("{:g} W", w), faint_end);
    }
    const double span_s = static_cast<double>(samples_) * t_.step_s;
    const double seconds = svg::round_up(span_s / 10);
    for (double at_s = 0; at_s <= span_s; at_s += seconds) {
      const double x = left + plot_w * at_s / span_s;
      out += line(x, y + part_h, x, y + part_h + 5, "axis") +
             label(x, y + part_h + 20, fmt::format("{:g}", at_s), faint_middle);
    }
    return out + line(left, y + part_h, left + plot_w, y + part_h, "axis");
  }

  std::string part(double y, std::string_view name, const std::vector<double>& x,
                   std::string_view kind, bool with_dips) const {
    auto out = label(left, y - 10, name);
    if (with_dips)
      for (const auto& d : t_.plan.idle.inner)
        out += area(x_of(static_cast<double>(d.from)), y,
                    x_of(static_cast<double>(d.to)) - x_of(static_cast<double>(d.from)), part_h,
                    "dip");
    out += grid(y);
    const auto columns = std::min<size_t>(x.size(), static_cast<size_t>(plot_w));
    std::string upper, lower;
    for (size_t i = 0; i < columns; ++i) {
      const auto from = i * x.size() / columns, to = (i + 1) * x.size() / columns;
      const auto [least, most] = std::minmax_element(x.begin() + static_cast<ptrdiff_t>(from),
                                                     x.begin() + static_cast<ptrdiff_t>(to));
      // A column is wide enough to be seen where nothing varies.
      const double high = y_of(y, *most) - 0.8, low = y_of(y, *least) + 0.8;
      const double at = x_of(static_cast<double>(from + to) / 2);
      upper += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", at, high);
      lower.insert(0, fmt::format("L{:.1f} {:.1f}", at, low));
    }
    return out + fmt::format("<path d=\"{}{}Z\" class=\"{}\"/>\n", upper, lower, kind) +
           line(left, y_of(y, t_.rules.tdp_w), left + plot_w, y_of(y, t_.rules.tdp_w), "tdp");
  }

  const swings_told& t_;
  size_t samples_ = 0;
  double most_w_ = 0;
};

}  // namespace

std::string swings_svg(const swings_told& t) {
  return swings_drawing(t).draw();
}

}  // namespace troupe::apps::power_verb
