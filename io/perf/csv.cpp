// Comma-separated values.
#include "io/perf/csv.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include <fmt/format.h>

#include "io/base/text.hpp"
#include "io/formats/byte_stream.hpp"

namespace troupe::io::perf {

namespace {

/// Cuts a text into rows.
class csv_scanner {
 public:
  csv_scanner(std::string_view text, const std::string& name) : text_(text), name_(name) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }

  bool done() const { return at_ >= text_.size(); }

  result<csv_row> row() {
    csv_row out{line_, {}};
    while (true) {
      TROUPE_TRY(cell, this->cell());
      out.cells.push_back(std::move(cell));
      if (out.cells.size() > max_csv_columns)
        return bad_csv(name_, line_, fmt::format("more than {} columns", max_csv_columns));
      if (!done() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      end_line();
      return out;
    }
  }

 private:
  void end_line() {
    if (!done() && text_[at_] == '\r') ++at_;
    if (!done() && text_[at_] == '\n') ++at_;
    ++line_;
  }

  bool at_end_of_cell() const {
    return done() || text_[at_] == ',' || text_[at_] == '\n' ||
           (text_[at_] == '\r' && (at_ + 1 == text_.size() || text_[at_ + 1] == '\n'));
  }

  result<std::string> cell() {
    if (done() || text_[at_] != '"') {
      const auto begin = at_;
      while (!at_end_of_cell()) ++at_;
      return std::string(text_.substr(begin, at_ - begin));
    }
    const auto begun = line_;
    std::string out;
    for (++at_; !done(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
          ++at_;
        } else {
          ++at_;
          if (!at_end_of_cell())
            return bad_csv(name_, line_, "text behind a closing quote; expected a comma");
          return out;
        }
      }
      if (text_[at_] == '\n') ++line_;
      out += text_[at_];
    }
    return bad_csv(name_, begun, "a quote that nothing closes");
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  size_t line_ = 1;
};

status check_heading(csv& c) {
  std::unordered_set<std::string_view> seen;
  for (auto& column : c.columns) {
    column = std::string(trimmed(column));
    if (column.empty()) return bad_csv(c.name, 1, "a column without a name");
  }
  for (const auto& column : c.columns)
    if (!seen.insert(column).second)
      return bad_csv(c.name, 1, fmt::format("two columns are called {}", troupe::quoted(column)));
  return {};
}

}  // namespace

std::optional<size_t> csv::column(std::string_view wanted) const {
  const auto it = std::find(columns.begin(), columns.end(), wanted);
  if (it == columns.end()) return std::nullopt;
  return static_cast<size_t>(it - columns.begin());
}

result<size_t> csv::need(std::string_view wanted) const {
  if (const auto at = column(wanted)) return *at;
  const std::vector<std::string_view> known(columns.begin(), columns.end());
  const auto near = nearest(wanted, known);
  return bad_csv(name, 1,
                 near.empty() ? fmt::format("no column {}", troupe::quoted(wanted))
                              : fmt::format("no column {}; {} is near", troupe::quoted(wanted),
                                            troupe::quoted(near)));
}

result<csv> parse_csv(std::string_view text, const std::string& name, size_t most_cells) {
  if (text.size() > max_csv_bytes)
    return bad_csv(name, 1, fmt::format("longer than {}", bytes_text(max_csv_bytes)));
  csv_scanner scanner(text, name);
  csv out;
  out.name = name;
  if (scanner.done()) return bad_csv(name, 1, "empty; expected a line of column names");
  TROUPE_TRY(heading, scanner.row());
  out.columns = std::move(heading.cells);
  TROUPE_CHECK(check_heading(out));
  size_t cells = 0;
  while (!scanner.done()) {
    TROUPE_TRY(row, scanner.row());
    if ((cells += row.cells.size()) > most_cells)
      return bad_csv(name, row.line, fmt::format("more than {} cells", most_cells));
    if (row.cells.size() == 1 && trimmed(row.cells[0]).empty()) continue;  // an empty line
    if (out.rows.empty() && row.cells.size() + 1 == out.columns.size())
      out.columns.pop_back();  // CSV-1
    if (row.cells.size() != out.columns.size())
      return bad_csv(name, row.line,
                     fmt::format("{} cells; expected {}, as in the heading", row.cells.size(),
                                 out.columns.size()));
    if (out.rows.size() == max_csv_rows)
      return bad_csv(name, row.line, fmt::format("more than {} rows", max_csv_rows));
    out.rows.push_back(std::move(row));
  }
  return out;
}

result<csv> read_csv(const std::filesystem::path& path) {
  TROUPE_TRY(text, read_unpacked(path, max_csv_bytes));
  return parse_csv(text, path.string());
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blank = " \t\r\n";
  const auto begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

std::optional<double> number_in(std::string_view text) noexcept {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace troupe::io::perf
