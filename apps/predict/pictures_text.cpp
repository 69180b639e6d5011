// The pictures of a terminal: bars, cells that count values, a curve of dots.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/predict/pictures.hpp"

namespace troupe::apps::predict {

namespace {

/// A name in so many columns, cut where it is longer.
std::string name_in(const std::string& name, size_t columns) {
  return name.size() <= columns ? fmt::format("{:<{}}", name, columns)
                                : name.substr(0, columns - 3) + "...";
}

std::string joined_cells(const std::vector<std::string>& cells) {
  std::string out;
  size_t used = 0;
  for (const auto& c : cells) {
    out += c;
    if (c != " ") used = out.size();
  }
  out.resize(used);
  return out;
}

/// Between the least and the greatest of what was measured and predicted, by logarithms.
struct log_scale {
  double from = 0, whole = 1;

  explicit log_scale(const std::vector<judged_value>& values) {
    double least = 1e300, most = 0;
    for (const auto& v : values) {
      least = std::min(least, v.predicted > 0 ? std::min(v.measured, v.predicted) : v.measured);
      most = std::max({most, v.measured, v.predicted});
    }
    from = std::log(least);
    whole = std::max(std::log(most) - from, 1e-9);
  }
  int cell(double value, int cells) const {
    const double share = value > 0 ? (std::log(value) - from) / whole : 0;
    return std::clamp(static_cast<int>(share * cells), 0, cells - 1);
  }
  double at(double share) const { return std::exp(from + whole * share); }
};

}  // namespace

std::string bars_text(const std::string& title, const std::vector<picture_bar>& bars,
                      const report::canvas& on) {
  constexpr size_t name_columns = 32;
  size_t name = 0, told = 0;
  double least = 0, most = 0;
  for (const auto& b : bars) {
    name = std::max(name, std::min(b.label.size(), name_columns));
    told = std::max(told, b.told.size());
    least = std::min({least, b.length, b.mark.value_or(0)});
    most = std::max({most, b.length, b.mark.value_or(0)});
  }
  const int taken = static_cast<int>(name + told) + 3;
  const int room = std::max(10, on.columns - taken);
  const double whole = most > least ? most - least : 1;
  const auto cell = [&](double value) {
    return std::clamp(static_cast<int>(std::lround((value - least) / whole * room)), 0, room);
  };
  auto out = title + "\n";
  for (const auto& b : bars) {
    std::vector<std::string> cells(static_cast<size_t>(room) + 1, " ");
    const bool other = b.length < 0 || b.other;
    const char* full = on.utf8 ? (other ? "▒" : "█") : (other ? "-" : "#");
    const auto [from, to] = std::minmax({cell(0), cell(b.length)});
    for (int i = from; i < to; ++i) cells[static_cast<size_t>(i)] = full;
    if (b.mark) cells[static_cast<size_t>(cell(*b.mark))] = on.utf8 ? "│" : "|";
    const auto drawn = joined_cells(cells);
    out += fmt::format("{} {:>{}}{}{}\n", name_in(b.label, name), b.told, told,
                       drawn.empty() ? "" : " ", drawn);
  }
  return out;
}

std::string measured_text(const std::string& title, const std::vector<judged_value>& values,
                          const report::canvas& on) {
  const int rows = std::max(on.rows, 8), columns = std::clamp(on.columns - 12, 16, 4 * rows);
  const log_scale scale(values);
  std::vector<std::vector<int>> counts(static_cast<size_t>(rows),
                                       std::vector<int>(static_cast<size_t>(columns)));
  for (const auto& v : values)
    ++counts[static_cast<size_t>(scale.cell(v.predicted, rows))]
            [static_cast<size_t>(scale.cell(v.measured, columns))];
  auto out = title + "\n";
  for (int r = rows; r-- > 0;) {
    std::string cells;
    for (int c = 0; c < columns; ++c) {
      const int n = counts[static_cast<size_t>(r)][static_cast<size_t>(c)];
      const bool equal = c * rows / columns == r;
      cells += n > 9 ? '+' : n > 0 ? static_cast<char>('0' + n) : equal ? '/' : ' ';
    }
    cells.resize(cells.find_last_not_of(' ') + 1);
    const bool labelled = r == 0 || r == rows - 1;
    const double value = scale.at(r == 0 ? 0 : 1);
    out += fmt::format("{:>8} {}{}\n", labelled ? fmt::format("{:.4g}", value) : "",
                       on.utf8 ? "│" : "|", cells);
  }
  const auto last = fmt::format("{:.4g}", scale.at(1));
  const auto first = fmt::format("{:.4g}", scale.at(0));
  return out +
         fmt::format("{:>9} {}{:>{}}\n", "", first, last,
                     std::max(columns - static_cast<int>(first.size()),
                              static_cast<int>(last.size()) + 1)) +
         "measured; upwards: predicted; digits: how many values; / where both are equal\n";
}

std::string learning_text(const std::string& title, const learning_curve& curve,
                          const report::canvas& on) {
  const auto& losses = curve.held.empty() ? curve.learned : curve.held;
  std::vector<report::point> points;
  for (size_t i = 0; i < losses.size(); ++i) points.push_back({curve.passes[i], losses[i]});
  auto canvas = on;
  canvas.unit = "pass";
  const auto drawn = report::curve(points, canvas);
  if (drawn.empty()) return {};
  return fmt::format("{}: {}, {:.3g} at last; of those learned from {:.3g}\n{}", title,
                     curve.held.empty() ? "rows learned from" : "rows not learned from",
                     losses.back(), curve.learned.back(), drawn);
}

}  // namespace troupe::apps::predict
