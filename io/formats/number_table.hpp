// Tables of numbers as text: a heading of names, then a line of numbers for each row, with commas.
//
//   t_s,watts
//   0,131072.5
//
// What meters, spreadsheets and other tools write as CSV. Lines before the heading that begin with
// # are passed over; a table may end with blank lines.
//
// Invariants
//   NTB-1  What is refused is named with its line.
//   NTB-2  Every cell is a finite number, every row as long as the heading, no name twice; within
//     `most_bytes`, `most_columns` and `most_values`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

inline constexpr error_kind<size_t, std::string> bad_number_table{
    "bad_number_table", errc::bad_data, "line {}: {}",
    "a heading of names with commas between them, then as many numbers a line, and no cell empty"};

struct number_table {
  static constexpr size_t most_bytes = size_t{2} << 30;
  static constexpr size_t most_columns = 4096;
  static constexpr size_t most_values = size_t{1} << 27;

  std::vector<std::string> names;          ///< at least one
  std::vector<double> first;               ///< the first column, often a time
  std::vector<std::vector<float>> others;  ///< the columns after it
  size_t first_line = 0;                   ///< of the file, that of row 0

  size_t rows() const { return first.size(); }
  size_t line_of(size_t row) const { return first_line + row; }
};

struct number_table_options {
  size_t most_values = number_table::most_values;
  std::function<void(size_t)> progress = {};  ///< told now and then how many bytes are read
};

/// Errors: bad_number_table.
result<number_table> parse_number_table(std::string_view text,
                                        const number_table_options& options = {});

}  // namespace troupe::io
