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

/// The values of one CPU model, errors in percent.
struct model_error {
  std::string cpu_model;
  size_t values = 0, flagged = 0;
  double mape = 0;
  double bias = 0;  ///< mean error with its sign: above 0 where too much was predicted
};

/// By the CPU model of each row of `values`, the one with the greatest error first. Nothing where
/// no row has one.
std::vector<model_error> errors_by_model(const std::vector<judged_value>& values,
                                         const std::vector<std::string>& model_of_row);

/// Percent of values that lie within an interval narrowed or widened to hold so many.
struct coverage_point {
  double asked = 0, seen = 0;
};

/// The 95 % of each value's interval are what was said; the rest as a normal distribution of the
/// logarithms has it, each side by its own end. Nothing where no value has an interval.
std::vector<coverage_point> coverage_of(const std::vector<judged_value>& values);

}  // namespace troupe::apps::predict
