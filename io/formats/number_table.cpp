// A reader of lines with commas, quick enough for traces of weeks.
#include "io/formats/number_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "io/base/text.hpp"

namespace troupe::io {

namespace {

constexpr size_t shown_bytes = 40, rows_between_progress = 4096;

/// Lines of a text, in turn.
class line_reader {
 public:
  explicit line_reader(std::string_view text) : text_(text) {}

  bool next() {
    if (at_ >= text_.size()) return false;
    const auto end = std::min(text_.find('\n', at_), text_.size());
    line = without_blanks(text_.substr(at_, end - at_));
    at_ = end + 1;
    ++number;
    return true;
  }
  size_t at() const { return std::min(at_, text_.size()); }

  std::string_view line;
  size_t number = 0;

 private:
  std::string_view text_;
  size_t at_ = 0;
};

result<std::vector<std::string>> names_of(std::string_view line, size_t number) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= line.size();) {
    const auto end = std::min(line.find(',', at), line.size());
    const auto name = without_blanks(line.substr(at, end - at));
    if (name.empty()) return bad_number_table(number, "a column of the heading has no name");
    if (out.size() == number_table::most_columns)
      return bad_number_table(number,
                              fmt::format("more than {} columns", number_table::most_columns));
    out.emplace_back(name);
    at = end + 1;
  }
  auto sorted = out;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return bad_number_table(number,
                            fmt::format("two columns are \"{}\"", twice->substr(0, shown_bytes)));
  return out;
}

status add_row(number_table& into, std::string_view line, size_t number, size_t values) {
  const auto columns = into.names.size();
  if (into.first.size() >= values / columns)
    return bad_number_table(number, fmt::format("more than {} numbers", values));
  size_t column = 0;
  for (size_t at = 0; at <= line.size(); ++column) {
    const auto end = std::min(line.find(',', at), line.size());
    const auto cell = without_blanks(line.substr(at, end - at));
    at = end + 1;
    if (column == columns) break;
    double value = 0;
    const auto read = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    const auto float_value = static_cast<float>(value);
    if (cell.empty() || read.ec != std::errc() || read.ptr != cell.data() + cell.size() ||
        !std::isfinite(float_value))
      return bad_number_table(number, fmt::format("{} is \"{}\", not a number",
                                                  into.names[column].substr(0, shown_bytes),
                                                  cell.substr(0, shown_bytes)));
    if (column == 0)
      into.first.push_back(value);
    else
      into.others[column - 1].push_back(float_value);
  }
  if (column == columns &&
      std::count(line.begin(), line.end(), ',') + 1 == static_cast<ptrdiff_t>(columns))
    return {};
  return bad_number_table(number,
                          fmt::format("{} numbers, and the heading has {} names",
                                      std::count(line.begin(), line.end(), ',') + 1, columns));
}

}  // namespace

result<number_table> parse_number_table(std::string_view text,
                                        const number_table_options& options) {
  if (text.size() > number_table::most_bytes)
    return bad_number_table(1, fmt::format("more than {} bytes in all", number_table::most_bytes));
  number_table out;
  line_reader lines(text);
  while (lines.next()) {
    if (lines.line.empty() || lines.line.front() == '#') continue;
    TROUPE_TRY(names, names_of(lines.line, lines.number));
    out.names = std::move(names);
    break;
  }
  if (out.names.empty()) return bad_number_table(std::max<size_t>(1, lines.number), "no heading");
  out.others.resize(out.names.size() - 1);
  out.first_line = lines.number + 1;
  size_t blank = 0;  // the line that may be the first of those at the end
  while (lines.next()) {
    if (lines.line.empty()) {
      blank = blank == 0 ? lines.number : blank;
      continue;
    }
    if (blank != 0) return bad_number_table(blank, "a blank line between rows");
    TROUPE_CHECK(add_row(out, lines.line, lines.number, options.most_values));
    if (options.progress && out.rows() % rows_between_progress == 0) options.progress(lines.at());
  }
  return out;
}

}  // namespace troupe::io
