// What is known of machines and of how they did: rows with an id, features in groups, labels.
//
// A feature that a row does not have is absent: not a number, or an empty word, never 0. A label
// may be missing: such a row can be asked about, and not learned from.
//
// Invariants
// TAB-1 Every row has a value per feature (numbers and words) and a label per output.
// TAB-2 No two rows have one id; rows stand in the order of their ids, whatever the file's order.
// TAB-3 Labels are read of the rows that a filter names, and of no other: those of the rest are
//       not parsed, so that nothing can depend on them (label_filter).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io::perf {

/// How a feature is used: as it is, by its logarithm, or by its level.
enum class feature_kind : uint8_t { number, log_number, category };

/// "number", "log", "category".
std::string_view to_string(feature_kind kind) noexcept;

struct feature {
  std::string name;
  std::string group;  ///< "memory", "cpu", "system", "workload", or a person's own
  std::string unit;   ///< "1" where it has none
  feature_kind kind = feature_kind::number;
  /// A category whose level says what a machine is: one that was never seen is outside the range.
  bool defining = false;
  bool operator==(const feature&) const = default;
};

inline constexpr double absent = std::numeric_limits<double>::quiet_NaN();

struct perf_row {
  std::string id;
  size_t line = 0;                 ///< of its file
  std::string cpu_model;           ///< groups rows; empty where it is not known
  std::string date;                ///< yyyymmdd, or empty
  std::vector<double> numbers;     ///< by feature; `absent` where it is none, or a category
  std::vector<std::string> words;  ///< by feature; empty where it is absent, or a number
  std::vector<double> labels;      ///< by output, above 0; `absent` where missing or not wanted
  double weight = 1;               ///< in a fit; below 1 of an extra row (extra.hpp)

  /// Whether it can be learned from, or judged.
  bool labelled() const;
};

struct perf_table {
  std::string dataset;
  std::vector<feature> features;
  std::vector<std::string> outputs;
  std::vector<perf_row> rows;  ///< TAB-2

  /// The row of an id, or null.
  const perf_row* find(std::string_view id) const;
};

/// Of one table.
inline constexpr size_t max_features = 1024;
inline constexpr size_t max_outputs = 256;

/// Whose labels are read.
using label_filter = std::function<bool(std::string_view id)>;

/// Two rows of a data set have one id: the file, the later row's line, the id, the other's line.
inline constexpr error_kind<std::string_view, size_t, std::string_view, size_t> same_id{
    "same_id", errc::bad_data, "{}:{}: row {} stands in line {} already"};

/// Sorts the rows by id. Errors: same_id.
status settle(perf_table& table, std::string_view file);

}  // namespace troupe::io::perf
