// How far predictions are from what was measured. Pure: no files, no clock.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace troupe::apps::predict {

/// One output of one row.
struct judged_value {
  size_t row = 0;     ///< which of the set's rows
  size_t output = 0;  ///< which of its outputs
  double measured = 0, predicted = 0;
  std::optional<double> lower, upper;
  bool flagged = false;
};

struct set_metrics {
  size_t rows = 0, flagged_rows = 0, unlabelled_rows = 0;
  double mae = 0, mse = 0, mape = 0, r2 = 0;  ///< averaged over measured outputs; MAPE in percent
  double p90 = 0;                             ///< of the absolute percentage errors of all values
  double under_3 = 0, under_5 = 0, under_10 = 0;  ///< percent of values
  std::optional<double> coverage;                 ///< percent of values within their interval
  std::optional<double> mape_unflagged;           ///< of rows that no flag is on
};

/// At least one value; `outputs` is how many there are.
set_metrics measure(const std::vector<judged_value>& values, size_t outputs);

}  // namespace troupe::apps::predict
