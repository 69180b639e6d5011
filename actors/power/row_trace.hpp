// What an operator's row drew: watts by time, of the whole row or of each server.
//
//   t_s,watts            t_s,server0,server1,...
//
// Times are seconds and rise; samples that are missing are filled with the greater of their
// neighbours, and counted. A whole row that draws 0 W is a meter that was away: no sample. What a
// budget saw (budget_trace.hpp) is a trace of a whole row.
//
// Invariants
//   RTR-1  What is refused is named with its line, and another unit than watts by its column.
//   RTR-2  What is read is a grid: as many samples in each column, none below 0, less than a fifth
//     of them filled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/formats/number_table.hpp"

namespace troupe::power {

inline constexpr error_kind<size_t, std::string> bad_trace{
    "bad_trace", errc::bad_data, "line {}: {}",
    "a trace is t_s,watts, or t_s and a column of watts for each server; times in seconds rise "
    "evenly"};
inline constexpr error_kind<size_t, std::string> not_watts{
    "not_watts", errc::bad_data, "line {}: the column {} is not in watts",
    "convert it: a kW is 1000 W, a mW 0.001 W, and energy is no power"};

/// Whether the name of a column ends with a unit of power, energy or current that is not watts.
/// `of_servers`: a letter at its end may be a server's.
bool is_in_other_unit(const std::string& column, bool of_servers);

struct row_trace {
  double step_s = 0;                        ///< between samples
  bool by_server = false;                   ///< a column a server; else one of the whole row
  std::vector<std::vector<float>> columns;  ///< watts, by sample
  size_t filled = 0;                        ///< samples that were missing
  double longest_gap_s = 0;                 ///< between two samples

  size_t samples() const { return columns.front().size(); }
  double span_s() const { return step_s * static_cast<double>(samples()); }
  /// Watts of the row at a sample.
  double row_w(size_t sample) const;
};

/// Its step, as a row's policy counts time: 1 ns to a day, and no more samples than time has room
/// for. Error: bad_trace.
result<int64_t> step_ns_of(const row_trace& trace);

/// Errors: bad_trace, not_watts.
result<row_trace> row_trace_of(io::number_table table);

}  // namespace troupe::power
