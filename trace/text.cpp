// Numbers and tables for people.
#include "trace/text.hpp"

#include <algorithm>
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

std::string table_text(std::vector<std::vector<std::string>> rows, int columns) {
  for (auto& row : rows)
    for (auto& cell : row) cell = printable(cell);
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  if (widths.empty()) return {};
  const auto all = std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));
  constexpr size_t least = 12;
  if (columns > 0 && all > static_cast<size_t>(columns)) {
    const auto over = all - static_cast<size_t>(columns);
    widths[0] = std::max(std::min(widths[0], least), widths[0] > over ? widths[0] - over : 0);
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i == 0 ? fmt::format("{:<{}}", cut(row[i], widths[i]), widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace troupe::trace
