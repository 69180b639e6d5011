// Numbers and tables for people.
#include "trace/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "io/base/printable.hpp"

namespace troupe::trace {

std::string duration_text(int64_t ns) {
  const auto x = std::abs(static_cast<double>(ns));
  const auto* sign = ns < 0 ? "-" : "";
  if (x < 1e3) return fmt::format("{}{:.0f} ns", sign, x);
  if (x < 999.5e3) return fmt::format("{}{:.{}f} us", sign, x / 1e3, x < 99.95e3 ? 1 : 0);
  if (x < 999.5e6) return fmt::format("{}{:.{}f} ms", sign, x / 1e6, x < 99.95e6 ? 1 : 0);
  if (x < 59.995e9) return fmt::format("{}{:.2f} s", sign, x / 1e9);
  return fmt::format("{}{:.0f} s", sign, x / 1e9);
}

std::vector<int> shares(const std::vector<int64_t>& parts) {
  const auto whole = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  std::vector<int> out(parts.size());
  if (whole <= 0) return out;
  std::vector<std::pair<double, size_t>> rest;
  int given = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto exact = static_cast<double>(parts[i]) * 1000.0 / static_cast<double>(whole);
    out[i] = static_cast<int>(std::floor(exact));
    given += out[i];
    rest.emplace_back(exact - std::floor(exact), i);
  }
  std::stable_sort(rest.begin(), rest.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; given < 1000 && i < rest.size(); ++i, ++given) ++out[rest[i].second];
  return out;
}

std::string share_text(int tenths) {
  return fmt::format("{}.{} %", tenths / 10, tenths % 10);
}

std::string cut(std::string_view text, size_t width) {
  if (text.size() <= width) return std::string(text);
  if (width <= 2) return std::string(text.substr(0, width));
  const auto front = (width - 2 + 1) / 2, back = width - 2 - front;
  return fmt::format("{}..{}", text.substr(0, front), text.substr(text.size() - back));
}

namespace {

/// The width of a line of such columns, those of width 0 left out.
size_t line_width(const std::vector<size_t>& widths) {
  size_t out = 0;
  for (const auto w : widths)
    if (w > 0) out += w + (out > 0 ? 2 : 0);
  return out;
}

/// The widest that fit, by what may give way; the narrowest where none does.
std::vector<size_t> fitted(const std::vector<size_t>& whole, size_t columns,
                           std::span<const column_limit> gives_way) {
  std::vector<size_t> widths = whole;
  const auto shorten = [&] {
    for (const auto& g : gives_way) {
      auto& width = widths[g.column];
      const auto over = line_width(widths) - std::min(line_width(widths), columns);
      if (over == 0) return;
      if (g.least > 0 && width > g.least) width = std::max(g.least, width - std::min(width, over));
    }
  };
  shorten();
  std::vector<size_t> left = whole;
  for (const auto& g : gives_way) {
    if (line_width(widths) <= columns) break;
    if (g.least > 0) continue;
    left[g.column] = 0;
    widths = left;  // what the others had given up may be theirs again
    shorten();
  }
  return widths;
}

}  // namespace

std::string table_text(std::vector<std::vector<std::string>> rows, int columns) {
  constexpr std::array first{column_limit{0, 12}};
  return table_text(std::move(rows), columns, first);
}

std::string table_text(std::vector<std::vector<std::string>> rows, int columns,
                       std::span<const column_limit> gives_way) {
  std::vector<size_t> widths;
  for (auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = printable(row[i]);
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  if (widths.empty()) return {};
  if (columns > 0) widths = fitted(widths, static_cast<size_t>(columns), gives_way);
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;
      const auto cell = cut(row[i], widths[i]);
      line += i == 0 ? fmt::format("{:<{}}", cell, widths[i])
                     : fmt::format("  {:>{}}", cell, widths[i]);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace troupe::trace
