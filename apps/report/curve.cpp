// A curve in a terminal: a grid of dots (2 by 4 in a braille character, or 1 by 2 in ASCII), each
// column of dots showing the mean of the steps that fall into it, joined to the next by a vertical
// stroke.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/report/report.hpp"

namespace troupe::report {

namespace {

/// Dots, and how a cell of them is written.
class grid {
 public:
  grid(int columns, int rows, bool utf8)
      : utf8_(utf8),
        across_(utf8 ? 2 : 1),
        down_(utf8 ? 4 : 2),
        columns_(columns),
        dots_(static_cast<size_t>(columns * rows * across_ * down_)),
        rows_(rows) {}

  int width() const { return columns_ * across_; }
  int height() const { return rows_ * down_; }
  void set(int x, int y) { dots_[index(x, y)] = true; }

  /// One row of cells, without the blanks at its end.
  std::string row(int r) const {
    std::string text;
    size_t used = 0;
    for (int c = 0; c < columns_; c++) {
      auto cell = utf8_ ? braille(c, r) : ascii(c, r);
      text += cell;
      if (cell != " ") used = text.size();
    }
    text.resize(used);
    return text;
  }

 private:
  size_t index(int x, int y) const { return static_cast<size_t>(y * width() + x); }
  bool at(int x, int y) const { return dots_[index(x, y)]; }

  std::string braille(int c, int r) const {
    // Unicode numbers the dots of a cell 1-2-3-7 down the left, 4-5-6-8 down the right.
    constexpr unsigned bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    unsigned code = 0x2800;
    for (int y = 0; y < 4; y++)
      for (int x = 0; x < 2; x++)
        if (at(c * 2 + x, r * 4 + y)) code |= bits[y][x];
    if (code == 0x2800) return " ";
    return {static_cast<char>(0xe0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3f)),
            static_cast<char>(0x80 | (code & 0x3f))};
  }

  std::string ascii(int c, int r) const {
    bool upper = at(c, r * 2), lower = at(c, r * 2 + 1);
    return upper && lower ? ":" : upper ? "'" : lower ? "." : " ";
  }

  bool utf8_;
  int across_, down_, columns_;
  std::vector<bool> dots_;
  int rows_;
};

struct range {
  double low, high;
};

range range_of(const std::vector<point>& points) {
  auto [low, high] = std::minmax_element(points.begin(), points.end(),
                                         [](auto& a, auto& b) { return a.value < b.value; });
  range r{low->value, high->value};
  if (r.high - r.low < 1e-9 * std::max(1.0, std::abs(r.high))) {  // a flat line lies in the middle
    r.low -= 0.5;
    r.high += 0.5;
  }
  return r;
}

/// Mean value of the points of each dot column; NaN where none falls.
std::vector<double> columns_of(const std::vector<point>& points, int width) {
  std::vector<double> sums(static_cast<size_t>(width), 0), counts(sums);
  auto first = points.front().step;
  auto span = static_cast<double>(points.back().step - first);
  for (const auto& p : points) {
    auto x = static_cast<size_t>(static_cast<double>(p.step - first) / span * (width - 1) + 0.5);
    sums[x] += p.value;
    counts[x] += 1;
  }
  for (size_t x = 0; x < sums.size(); x++)
    sums[x] /= counts[x];  // 0 / 0 is the NaN that is promised
  return sums;
}

void draw(grid& dots, const std::vector<double>& values, range r) {
  int last_x = -1, last_y = 0;
  for (int x = 0; x < dots.width(); x++) {
    double v = values[static_cast<size_t>(x)];
    if (std::isnan(v)) continue;
    auto y = static_cast<int>((r.high - v) / (r.high - r.low) * (dots.height() - 1) + 0.5);
    y = std::clamp(y, 0, dots.height() - 1);
    for (int between = last_x; last_x >= 0 && between < x; between++) {  // a line from the last dot
      auto part = [&](int at) {
        return last_y + static_cast<int>(std::lround(static_cast<double>(y - last_y) *
                                                     (at - last_x) / (x - last_x)));
      };
      auto [from, to] = std::minmax({part(between), part(between + 1)});
      for (int on_way = from + (from != to); on_way <= to; on_way++) dots.set(between + 1, on_way);
    }
    dots.set(x, y);
    last_x = x;
    last_y = y;
  }
}

}  // namespace

std::string curve(const std::vector<point>& points, const canvas& on) {
  std::vector<point> drawn;
  for (const auto& p : points)
    if (std::isfinite(p.value)) drawn.push_back(p);
  std::stable_sort(drawn.begin(), drawn.end(), [](auto& a, auto& b) { return a.step < b.step; });
  if (drawn.size() < 2 || drawn.front().step == drawn.back().step) return {};
  int rows = std::max(on.rows, 3);
  auto r = range_of(drawn);
  auto label = [&](int row) {
    double v = r.high - (r.high - r.low) * row / (rows - 1);
    return fmt::format("{:.{}f}", v, r.high - r.low < 0.1 ? 4 : 2);
  };
  int margin = static_cast<int>(std::max(label(0).size(), label(rows - 1).size())) + 2;
  int width = std::max(on.columns, 24) - margin;
  grid dots(width, rows, on.utf8);
  draw(dots, columns_of(drawn, dots.width()), r);
  std::string text;
  for (int row = 0; row < rows; row++) {
    bool labelled = row == 0 || row == rows - 1 || row == rows / 2;
    text += fmt::format("{:>{}} {}{}\n", labelled ? label(row) : "", margin - 2,
                        on.utf8 ? (labelled ? "┤" : "│") : "|", dots.row(row));
  }
  auto first = std::to_string(drawn.front().step), last = std::to_string(drawn.back().step);
  auto room = width - static_cast<int>(last.size());  // for the first step's label
  if (room > static_cast<int>(first.size() + on.unit.size() + 1)) first = on.unit + " " + first;
  if (room <= static_cast<int>(first.size())) first.clear();
  std::string axis;
  for (int i = 0; i < width; i++) axis += on.utf8 ? "─" : "-";
  text += fmt::format("{:>{}} {}{}\n", "", margin - 2, on.utf8 ? "└" : "+", axis);
  return text + fmt::format("{:>{}}{:<{}}{}\n", "", margin, first, std::max(room, 0), last);
}

}  // namespace troupe::report
