// The picture of simulated days: what time was lost to, day by day, and below it when which fault
// came. Drawn as text: SVG has no state worth a library.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "apps/sim_days.hpp"
#include "apps/svg.hpp"
#include "io/base/counted.hpp"

namespace troupe::apps {

namespace {

using health::time_entries;
using health::time_use;
using health::time_uses;
using svg::escaped;

constexpr double left = 190, right = 40, plot_w = 860, top = 104, lost_h = 220, row_h = 20;
constexpr size_t columns_drawn = 120;
constexpr size_t rows_drawn = 24;

/// By entry; of useful is drawn what steps took longer.
constexpr std::array<const char*, time_uses> colours = {"#b8c46b", "#e0a43b", "#9aa5b1", "#c0392b",
                                                        "#8e44ad", "#2e6da4", "#3aa17e", "#7f6a4a",
                                                        "#cccccc", "#e67e73", "#2c3e50"};

std::string text_at(double x, double y, std::string_view what, std::string_view more = "") {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" {}>{}</text>)", x, y, more, escaped(what)) +
         "\n";
}

std::string box(double x, double y, double w, double h, std::string_view fill) {
  return fmt::format(R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="{}"/>)"
                     "\n",
                     x, y, w, h, fill);
}

std::string rule(double x1, double y1, double x2, double y2, std::string_view stroke) {
  return fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}"/>)"
                     "\n",
                     x1, y1, x2, y2, stroke);
}

class drawing {
 public:
  explicit drawing(const days_told& t) : t_(t), days_(t.options.days) {
    const auto& hours = t.outcome.ledger.hours();
    hours_each_ = std::max<size_t>(1, (hours.size() + columns_drawn - 1) / columns_drawn);
    if (days_ > 4) hours_each_ = std::max<size_t>(24, hours_each_ / 24 * 24);
    for (size_t i = 0; i < hours.size(); i += hours_each_) {
      columns_.emplace_back();
      slower_ns_.push_back(0);
      for (size_t k = i; k < std::min(hours.size(), i + hours_each_); ++k) {
        columns_.back() += hours[k];
        if (k < t.outcome.slower_by_hour_ns.size())
          slower_ns_.back() += t.outcome.slower_by_hour_ns[k];
      }
    }
    for (size_t i = 0; i < columns_.size(); ++i)
      most_lost_ = std::max(most_lost_, 1 - columns_[i].effective() + slower_share(i));
    most_lost_ = nice(most_lost_);
    for (const auto& i : t.outcome.incidents)
      causes_[t.options.mix.causes[i.cause].cause].push_back(&i);
  }

  std::string draw() const {
    const double h = strip_top() + row_h * static_cast<double>(strip().size()) + 56;
    const double w = left + plot_w + right;
    return fmt::format(
               R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
               R"(viewBox="0 0 {0:.0f} {1:.0f}" font-size="12" fill="#222222" )"
               R"(font-family="system-ui,Helvetica,Arial,sans-serif">)"
               "\n"
               R"(<rect width="{0:.0f}" height="{1:.0f}" fill="#ffffff"/>)"
               "\n",
               w, h) +
           heading() + lost() + legend() + incidents() + "</svg>\n";
  }

 private:
  /// The next of 1, 2, 5 x 10^n.
  static double nice(double x) {
    for (double scale = 1e-4; scale < 1; scale *= 10)
      for (const double digit : {1.0, 2.0, 5.0})
        if (x <= scale * digit) return scale * digit;
    return 1;
  }

  /// Of a column's time, what steps took longer.
  double slower_share(size_t i) const {
    return static_cast<double>(slower_ns_[i]) /
           static_cast<double>(std::max<int64_t>(1, columns_[i].wall_ns()));
  }

  double x_of(double day) const { return left + plot_w * day / days_; }
  double strip_top() const { return top + lost_h + 118; }

  std::string heading() const {
    const auto& o = t_.options;
    auto about = o.as == "ours" ? std::string("ours") : "as " + o.as;
    if (o.as == "ours")
      about += fmt::format(", {}{}, copies in memory {}", o.planned ? "with what is planned, " : "",
                           counted(o.spares, "spare"), copies_text(o));
    return text_at(24, 34,
                   fmt::format("{} {} on {} of {}: {:.2f} % effective", o.days,
                               plural(o.days == 1 ? 1 : 2, "day"), counted(o.nodes, "node"),
                               o.workers, 100 * t_.outcome.effective()),
                   R"(font-size="19" font-weight="600")") +
           text_at(24, 56,
                   fmt::format("{}; faults of {} ({:.2f} per 1,000 node-days), seed {}", about,
                               o.mix.name, o.mix.rate(), o.seed),
                   R"(fill="#555555")") +
           text_at(24, 88, fmt::format("Time lost, each {}", width_text()),
                   R"(font-size="14" font-weight="600")");
  }

  std::string width_text() const {
    if (hours_each_ == 24) return "day";
    return hours_each_ == 1 ? "hour" : fmt::format("{} hours", hours_each_);
  }

  std::string lost() const {
    std::string out;
    for (int i = 0; i <= 4; ++i) {
      const double y = top + lost_h * (1 - i / 4.0);
      out += rule(left, y, left + plot_w, y, "#e6e6e6");
      out += text_at(left - 8, y + 4, fmt::format("{:.3g} %", 100 * most_lost_ * i / 4),
                     R"(text-anchor="end" fill="#555555")");
    }
    for (size_t i = 0; i < columns_.size(); ++i) {
      const double from = static_cast<double>(i * hours_each_) / 24;
      const double to = std::min(days_, static_cast<double>((i + 1) * hours_each_) / 24);
      const double gap = std::min(2.0, 0.15 * (x_of(to) - x_of(from)));
      double y = top + lost_h;
      for (size_t u = 0; u < time_uses; ++u) {
        const double share =
            u == 0 ? slower_share(i)
                   : static_cast<double>(columns_[i][static_cast<time_use>(u)]) /
                         static_cast<double>(std::max<int64_t>(1, columns_[i].wall_ns()));
        const double h = lost_h * share / most_lost_;
        if (h <= 0) continue;
        y -= h;
        out += box(x_of(from) + gap / 2, y, x_of(to) - x_of(from) - gap, h, colours[u]);
      }
    }
    return out + day_axis(top + lost_h);
  }

  std::string day_axis(double y) const {
    auto out = rule(left, y, left + plot_w, y, "#555555");
    double each = 1.0 / 4;
    for (const double e : {1.0, 2.0, 7.0, 14.0, 28.0, 56.0})
      if (days_ / each > 14) each = e;
    for (double day = 0; day <= days_ + 1e-9; day += each) {
      out += rule(x_of(day), y, x_of(day), y + 4, "#555555");
      out += text_at(x_of(day), y + 18, fmt::format("{:g}", day),
                     R"(text-anchor="middle" fill="#555555")");
    }
    return out + text_at(left - 8, y + 18, "day", R"(text-anchor="end" fill="#555555")");
  }

  /// Entries that took time, in two rows.
  std::string legend() const {
    std::string out;
    const auto& whole = t_.outcome.ledger.whole();
    size_t shown = 0;
    for (size_t u = 0; u < time_uses; ++u) {
      const auto use = static_cast<time_use>(u);
      const auto lost_ns = u == 0 ? t_.outcome.slower_ns : whole[use];
      if (lost_ns == 0) continue;
      const double x = left + static_cast<double>(shown % 5) * 172;
      const double y = top + lost_h + 42 + 20 * static_cast<double>(shown / 5);
      out += box(x, y - 10, 12, 12, colours[u]);
      out += text_at(
          x + 17, y,
          fmt::format("{} {:.2f} %", u == 0 ? "longer steps" : to_string(use),
                      100.0 * static_cast<double>(lost_ns) / static_cast<double>(whole.wall_ns())));
      ++shown;
    }
    return out;
  }

  /// Causes by how often they came; what is beyond the rows is one.
  std::vector<std::pair<std::string, std::vector<const sim::day_incident*>>> strip() const {
    std::vector<std::pair<std::string, std::vector<const sim::day_incident*>>> out(causes_.begin(),
                                                                                   causes_.end());
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
      return a.second.size() > b.second.size();
    });
    if (out.size() <= rows_drawn) return out;
    for (size_t i = rows_drawn; i < out.size(); ++i)
      out[rows_drawn - 1].second.insert(out[rows_drawn - 1].second.end(), out[i].second.begin(),
                                        out[i].second.end());
    out[rows_drawn - 1].first = "others";
    out.resize(rows_drawn);
    return out;
  }

  std::string incidents() const {
    double y = strip_top();
    auto out = text_at(24, y - 16, "Incidents", R"(font-size="14" font-weight="600")");
    out += box(left, y - 26, 3, 12, "#2e6da4") + text_at(left + 8, y - 16, "unaided");
    out += box(left + 80, y - 26, 3, 12, "#c0392b") +
           text_at(left + 88, y - 16, "a person was needed");
    for (const auto& [name, all] : strip()) {
      out += rule(left, y + row_h, left + plot_w, y + row_h, "#eeeeee");
      auto shown = name.size() > 25 ? name.substr(0, 23) + ".." : name;
      out += text_at(left - 8, y + 14, fmt::format("{} {}", shown, all.size()),
                     R"(text-anchor="end")");
      for (const auto* i : all)
        out += box(x_of(static_cast<double>(i->at_ns) / 86'400e9) - 1, y + 4, 2, row_h - 7,
                   i->unaided ? "#2e6da4" : "#c0392b");
      y += row_h;
    }
    return out + day_axis(y);
  }

  const days_told& t_;
  const double days_;
  size_t hours_each_ = 1;
  double most_lost_ = 0;
  std::vector<time_entries> columns_;
  std::vector<int64_t> slower_ns_;  ///< by column
  std::map<std::string, std::vector<const sim::day_incident*>> causes_;
};

}  // namespace

std::string days_svg(const days_told& told) {
  return drawing(told).draw();
}

}  // namespace troupe::apps
