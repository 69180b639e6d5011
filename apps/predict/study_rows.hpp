// What a study of predictors has found so far: a row per data set, fold, seed and kind, as a CSV
// that is read back where the study goes on, and what the rows say together. Pure: no files, no
// clock.
//
// Invariants
// STU-1 A study's rows that are written and read back are the same, number by number.
// STU-2 Folds are pooled before anything is said of seeds: an error is that of all rows of a seed,
//       and its deviation that of the seeds.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::apps::predict {

/// What was judged. Kinds without a network are the same for every seed: they are there once, with
/// seed 0.
struct study_key {
  std::string dataset, fold;
  uint64_t seed = 0;
  std::string kind;
  auto operator<=>(const study_key&) const = default;
};

/// How it did on the fold's rows.
struct study_row {
  std::string chosen;  ///< the kind that it came to: another one for `auto` alone
  uint64_t rows = 0, flagged_rows = 0;
  double mape = 0, mae = 0, mse = 0, r2 = 0, p90 = 0;  ///< as set_metrics has them
  double coverage = 0;                                 ///< percent of values within their interval
  std::string digest;  ///< of the rows, the options and the program that it was made of
  bool operator==(const study_row&) const = default;
};

using study_rows = std::map<study_key, study_row>;

std::string study_text(const study_rows& rows);
/// Errors: bad_csv, with the line.
result<study_rows> parse_study(std::string_view text, const std::string& name);

/// One kind of one data set, over folds and seeds (STU-2).
struct study_sum {
  std::string dataset, kind;
  size_t seeds = 0, folds = 0;
  uint64_t rows = 0;                      ///< of all folds
  double mape = 0, coverage = 0, r2 = 0;  ///< means over the seeds; r2 is that of folds, by rows
  std::optional<double> deviation;        ///< of mape over the seeds; none of one seed
  double flagged_percent = 0;             ///< of rows
  std::optional<double> over_trunk;       ///< points of mape that it is worse than the trunk
  std::map<std::string, double> mape_by_fold;
};

/// In the order of data sets, then of `kinds`; kinds that are not named are left out.
std::vector<study_sum> sums_of_study(const study_rows& rows, const std::vector<std::string>& kinds);

}  // namespace troupe::apps::predict
