// The watts of a power budget by time, from a table: demand response, tariffs, a site's own plan.
//
//   t_s,watts          seconds from the start of the process
//   unix_s,watts       seconds since 1970
//
// Each row holds until the next one, and the last one for good; before the first row the table says
// nothing.
//
// Pure: no clock, no file.
//
// Invariants
//   BSC-1  What was read can be granted at every time: times rise, and no row is below the least
//     that the budget may have. What is refused is named with its line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/formats/number_table.hpp"

namespace troupe::power {

inline constexpr error_kind<size_t, std::string> bad_schedule{
    "bad_schedule", errc::bad_data, "line {}: {}",
    "a budget follows t_s,watts (seconds from the start) or unix_s,watts; times rise, and no row "
    "is less than static_w of all children together"};

/// What a table is read for.
struct schedule_terms {
  std::string name;         ///< of the file, for persons
  double start_unix_s = 0;  ///< when the process starts
  int64_t least_mw = 0;     ///< no row may be less
};

class budget_schedule {
 public:
  /// A table has no more rows.
  static constexpr size_t most_rows = 100'000;

  /// Errors: bad_schedule, not_watts.
  static result<budget_schedule> of(const io::number_table& table, schedule_terms terms);

  /// So long after the start of the process; none before the first row.
  std::optional<int64_t> at_mw(int64_t since_start_ns) const;

  const std::string& name() const { return name_; }
  size_t rows() const { return rows_.size(); }
  int64_t least_mw() const;
  int64_t greatest_mw() const;

 private:
  struct row {
    int64_t from_ns = 0;  ///< after the start of the process
    int64_t mw = 0;
  };
  std::string name_;
  std::vector<row> rows_;  ///< at least one
};

}  // namespace troupe::power
