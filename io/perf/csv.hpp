// Comma-separated values (RFC 4180) as public data sets have them: quotes, commas and line ends
// within quotes, a byte order mark, CRLF, stray blanks and tabs around the names of columns.
//
// Invariants
// CSV-1 Every row has as many cells as the heading, or the text is refused with the row's line.
//       A heading's last name that the first row has no cell for names no column: so it is in
//       SPEC's dump.
// CSV-2 No two columns have one name, and none has none.
// CSV-3 What is beyond the limits below is refused, never cut.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io::perf {

/// Of a file, inflated; of its rows; of its columns; of its cells, each of which takes 32 bytes and
/// more in memory, however short it is.
inline constexpr size_t max_csv_bytes = size_t{256} << 20;
inline constexpr size_t max_csv_rows = 1 << 20;
inline constexpr size_t max_csv_columns = 4096;
inline constexpr size_t max_csv_cells = 1 << 25;

/// A place ("file:line") and what is wrong there.
inline constexpr error_kind<std::string_view, size_t, std::string_view> bad_csv{
    "bad_csv", errc::bad_data, "{}:{}: {}"};

struct csv_row {
  size_t line = 0;  ///< where it begins; the heading is line 1
  std::vector<std::string> cells;
};

struct csv {
  std::string name;                  ///< what errors call it
  std::vector<std::string> columns;  ///< CSV-2, without blanks around them
  std::vector<csv_row> rows;

  std::optional<size_t> column(std::string_view wanted) const;
  /// The same, or bad_csv with the nearest name.
  result<size_t> need(std::string_view wanted) const;
};

/// `most_cells` is max_csv_cells, or less. Errors: bad_csv.
result<csv> parse_csv(std::string_view text, const std::string& name,
                      size_t most_cells = max_csv_cells);

/// A file, gzip's or plain. Errors: bad_csv, those of files.
result<csv> read_csv(const std::filesystem::path& path);

/// A cell of a row as CSV: quoted where it has to be.
std::string csv_cell(std::string_view text);

/// Without blanks, tabs and line ends on both sides.
std::string_view trimmed(std::string_view text) noexcept;

/// A finite number that the whole text, trimmed, is; nothing where it is none.
std::optional<double> number_in(std::string_view text) noexcept;

}  // namespace troupe::io::perf
