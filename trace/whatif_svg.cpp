// The heat map of a what-if report: one panel of slowdowns, smaller ones of what forward, backward
// and the transfers take. Drawn as text: SVG has no state worth a library.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "io/base/text.hpp"
#include "trace/text.hpp"
#include "trace/whatif_policy.hpp"

namespace troupe::trace {

namespace {

struct colour {
  double r, g, b;
};

/// From paper over yellow and orange to a dark red: darker is slower, also without colours.
constexpr colour ramp[] = {{247, 244, 238}, {253, 224, 150}, {248, 167, 82},
                           {224, 93, 54},   {170, 30, 50},   {90, 8, 40}};

colour shade(double x) {
  const double at = std::clamp(x, 0.0, 1.0) * (std::size(ramp) - 1);
  const auto low = std::min(static_cast<size_t>(at), std::size(ramp) - 2);
  const double part = at - static_cast<double>(low);
  const auto mix = [&](double a, double b) { return a + (b - a) * part; };
  return {mix(ramp[low].r, ramp[low + 1].r), mix(ramp[low].g, ramp[low + 1].g),
          mix(ramp[low].b, ramp[low + 1].b)};
}

std::string hex(const colour& c) {
  return fmt::format("#{:02x}{:02x}{:02x}", std::lround(c.r), std::lround(c.g), std::lround(c.b));
}

bool is_dark(const colour& c) {
  return 0.3 * c.r + 0.59 * c.g + 0.11 * c.b < 140;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

/// A grid of cells, its numbers and how it is told.
struct panel {
  std::string title, unit;
  std::vector<double> values;  ///< by cell
  double least = 0, most = 1;  ///< of the scale
  double cell_w = 0, cell_h = 0;
  int digits = 2;
};

class drawing {
 public:
  drawing(const straggler_report& r, const whatif_layout& l) : r_(r), l_(l) {}

  std::string draw() {
    auto panels = choose();
    place(panels);
    std::string body = heading();
    double y = top();
    body += draw_panel(panels[0], margin, y);
    y += height(panels[0]) + gap;
    for (size_t i = 1; i < panels.size(); i += columns_) {
      double lowest = 0;
      for (size_t k = i; k < std::min(i + columns_, panels.size()); ++k) {
        body += draw_panel(panels[k],
                           margin + static_cast<double>(k - i) * (width(panels[k]) + gap), y);
        lowest = std::max(lowest, height(panels[k]));
      }
      y += lowest + gap;
    }
    const double w = std::max(width(panels[0]), width_needed_) + 2 * margin;
    return fmt::format(
               R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
               R"(viewBox="0 0 {0:.0f} {1:.0f}" )"
               R"(font-family="system-ui,Helvetica,Arial,sans-serif">)"
               "\n"
               R"(<rect width="{0:.0f}" height="{1:.0f}" fill="#ffffff"/>)"
               "\n",
               w, y - gap + margin) +
           gradient() + body + "</svg>\n";
  }

 private:
  static constexpr double margin = 32, gap = 22, axis = 56, title_h = 30, ticks_h = 20,
                          legend_h = 34, least_width = 560;

  static constexpr double first_cause_y = 100, cause_h = 20;

  double top() const {
    const auto lines = std::max<size_t>(1, r_.causes.size());
    return first_cause_y + cause_h * static_cast<double>(lines) + 10;
  }

  /// Slowdowns, then the times of what differs between ranks and of what every reader asks for.
  std::vector<panel> choose() {
    std::vector<panel> out;
    panel first;
    first.title = "Slowdown if all but this rank were ideal (S_w)";
    first.unit = "times";
    first.least = 1;
    first.most = whatif_policy::least_slowdown;
    for (const auto& c : r_.cells) {
      first.values.push_back(c.slowdown);
      first.most = std::max(first.most, c.slowdown);
    }
    out.push_back(std::move(first));
    for (const auto op : {whatif_op::forward, whatif_op::backward, whatif_op::receive_activation,
                          whatif_op::reduce_scatter, whatif_op::update}) {
      panel p;
      double least = 0, most = 0;
      for (const auto& c : r_.cells) {
        const auto x = c.mean_s[static_cast<size_t>(op)];
        p.values.push_back(x);
        if (x > 0 && (least <= 0 || x < least)) least = x;
        most = std::max(most, x);
      }
      if (most <= 0) continue;
      const double scale = most >= 1 ? 1 : most >= 1e-3 ? 1e3 : 1e6;
      p.unit = most >= 1 ? "s" : most >= 1e-3 ? "ms" : "us";
      for (auto& x : p.values) x *= scale;
      // Of like times the smallest difference is not the largest colour.
      p.least = least * scale;
      p.most = std::max(most, 1.25 * least) * scale;
      p.digits = p.most < 10 ? 2 : p.most < 100 ? 1 : 0;
      p.title = fmt::format("{}, mean", to_string(op));
      out.push_back(std::move(p));
    }
    return out;
  }

  void place(std::vector<panel>& panels) {
    const double across = l_.data, down = l_.pipeline;
    auto& first = panels[0];
    first.cell_w = std::clamp(880 / across, 2.0, 84.0);
    first.cell_h = std::clamp(300 / down, 6.0, 44.0);
    columns_ = across * 20 > 400 ? 1 : 2;
    for (size_t i = 1; i < panels.size(); ++i) {
      panels[i].cell_w = columns_ == 1 ? first.cell_w : std::min(first.cell_w, 360 / across);
      panels[i].cell_h = std::min(first.cell_h, 30.0);
      width_needed_ =
          std::max(width_needed_, static_cast<double>(columns_) * (width(panels[i]) + gap) - gap);
    }
    width_needed_ = std::max(width_needed_, least_width);
  }

  double width(const panel& p) const { return axis + std::max(p.cell_w * l_.data, 290.0); }
  double height(const panel& p) const {
    return title_h + p.cell_h * l_.pipeline + ticks_h + legend_h;
  }

  static std::string text(double x, double y, double size, std::string_view fill,
                          std::string_view anchor, std::string_view what, bool bold = false) {
    return fmt::format(
        R"(<text x="{:.1f}" y="{:.1f}" font-size="{}" fill="{}" text-anchor="{}"{}>{}</text>)"
        "\n",
        x, y, size, fill, anchor, bold ? R"( font-weight="600")" : "", escaped(what));
  }

  std::string heading() const {
    const auto seconds = [](double x) { return duration_text(static_cast<int64_t>(x * 1e9)); };
    auto out = text(
        margin, 48, 24, "#222222", "start",
        fmt::format("{} a step, {} if all ranks were alike", seconds(r_.t_s), seconds(r_.ideal_s)),
        true);
    const auto m_s =
        l_.pipeline > 1 ? fmt::format("M_S {:.3f} (last stage) \u00b7 ", r_.m_s) : std::string();
    out += text(margin, 74, 13, "#555555", "start",
                fmt::format("S {:.3f} \u00b7 M_W {:.3f} (worst 3 % of ranks) \u00b7 {}"
                            "{} steps of {} x {} ranks",
                            r_.s, r_.m_w, m_s, r_.steps, l_.data, l_.pipeline));
    double y = first_cause_y;
    for (const auto& c : r_.causes) {
      out += text(margin, y, 14, "#aa1e32", "start",
                  fmt::format("{}{}{}: {} a step without", to_string(c.what),
                              c.where.empty() ? "" : " ", c.where, seconds(c.without_s)),
                  true);
      y += cause_h;
    }
    if (r_.causes.empty())
      out += text(margin, y, 14, "#2f6b3a", "start",
                  r_.s < whatif_policy::least_slowdown ? "nothing holds the steps up"
                                                       : "no single cause explains a quarter of it",
                  true);
    return out;
  }

  std::string draw_panel(const panel& p, double x, double y) const {
    auto out = text(x, y + 14, 14, "#222222", "start", p.title, true);
    const double left = x + axis, from = y + title_h;
    for (int32_t s = 0; s < l_.pipeline; ++s) {
      if (p.cell_h >= 11 || s % 4 == 0)
        out += text(left - 8, from + p.cell_h * (s + 0.5) + 4, 11, "#666666", "end",
                    fmt::format("{}{}", s == 0 ? "stage " : "", s));
      for (int32_t d = 0; d < l_.data; ++d) out += draw_cell(p, left, from, d, s);
    }
    const double below = from + p.cell_h * l_.pipeline;
    const auto every = std::max(1, static_cast<int>(std::ceil(26 / p.cell_w)));
    for (int32_t d = 0; d < l_.data; d += every)
      out += text(left + p.cell_w * (d + 0.5), below + 14, 11, "#666666", "middle",
                  fmt::format("{}", d));
    out += text(left - 8, below + 14, 11, "#666666", "end", "data");
    return out + legend(p, left, below + ticks_h + 6);
  }

  std::string draw_cell(const panel& p, double left, double from, int32_t d, int32_t s) const {
    const auto cell = l_.cell(d, s);
    const auto value = p.values[cell];
    const bool none = value <= 0;
    const auto fill = shade((value - p.least) / (p.most - p.least));
    const double pad = p.cell_w > 8 ? 1 : 0, x = left + p.cell_w * d, y = from + p.cell_h * s;
    const auto number = fmt::format("{:.{}f}", value, p.digits);
    auto where = cell_name(l_, cell);
    if (!l_.names.empty()) where += fmt::format(" (data rank {}, stage {})", d, s);
    if (!l_.hosts.empty()) where += " on " + l_.hosts[cell];
    auto out = fmt::format(
        R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" rx="{}" fill="{}" )"
        R"(stroke="{}" stroke-width="{}"><title>{}: {} {}</title></rect>)"
        "\n",
        x + pad, y + pad, p.cell_w - 2 * pad, p.cell_h - 2 * pad, p.cell_w > 16 ? 3 : 0,
        none ? "#ffffff" : hex(fill), pad > 0 ? "#d8d4cc" : "none", pad > 0 ? 0.6 : 0,
        escaped(where), none ? "-" : number, none ? "" : p.unit);
    if (!none && p.cell_w >= 7.0 * static_cast<double>(number.size()) + 4 && p.cell_h >= 15)
      out += text(x + p.cell_w / 2, y + p.cell_h / 2 + 4, 12, is_dark(fill) ? "#ffffff" : "#333333",
                  "middle", number);
    return out;
  }

  static std::string legend(const panel& p, double x, double y) {
    constexpr double wide = 180;
    auto out = fmt::format(
        R"svg(<rect x="{:.1f}" y="{:.1f}" width="{}" height="8" rx="2" fill="url(#ramp)"/>)svg"
        "\n",
        x + 30, y, wide);
    out += text(x + 26, y + 8, 11, "#666666", "end", fmt::format("{:.{}f}", p.least, p.digits));
    out += text(x + 34 + wide, y + 8, 11, "#666666", "start",
                fmt::format("{:.{}f} {}", p.most, p.digits, p.unit));
    return out;
  }

  /// The colours from left to right, for all legends.
  static std::string gradient() {
    std::string out = R"(<defs><linearGradient id="ramp">)";
    for (size_t i = 0; i < std::size(ramp); ++i)
      out += fmt::format(R"(<stop offset="{:.2f}" stop-color="{}"/>)",
                         static_cast<double>(i) / (std::size(ramp) - 1), hex(ramp[i]));
    return out + "</linearGradient></defs>\n";
  }

  const straggler_report& r_;
  const whatif_layout& l_;
  size_t columns_ = 1;
  double width_needed_ = 0;
};

}  // namespace

std::string stragglers_svg(const straggler_report& r, const whatif_layout& layout) {
  return drawing(r, layout).draw();
}

}  // namespace troupe::trace
