// Numbers as a person reads them, for everything that prints about traces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::trace {

/// "850 ns", "12.3 us", "41.0 ms", "1.23 s", "75 s".
std::string duration_text(int64_t ns);

/// Shares of a whole in tenths of a percent that add up to exactly 1000 (largest remainder); all 0
/// where the whole is 0.
std::vector<int> shares(const std::vector<int64_t>& parts);

/// "34.5 %" of tenths.
std::string share_text(int tenths);

/// Rows in aligned columns, two blanks between them; the first column to the left, others to the
/// right. The first row is the heading. Where a line would be longer than `columns` the first
/// column is cut; 0: nothing is cut. Lines end with '\n', without blanks before it;
/// cells are made printable.
std::string table_text(std::vector<std::vector<std::string>> rows, int columns);

/// A column that gives way where a table is too wide.
struct column_limit {
  size_t column = 0;
  size_t least = 0;  ///< characters that are left of it; 0: it is left out as a whole
};

/// As above; the columns give way in the order of `gives_way`, each only as far as those before it
/// leave too much.
std::string table_text(std::vector<std::vector<std::string>> rows, int columns,
                       std::span<const column_limit> gives_way);

/// A text cut to `width` columns, its middle replaced by "..".
std::string cut(std::string_view text, size_t width);

}  // namespace troupe::trace
