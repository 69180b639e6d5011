// Rows of a table as the trunk and the network take them.
//
// Invariants
// ENC-1 Levels, medians, means, deviations and ranges come from the rows that are handed in to be
//       learned from, and from no other.
// ENC-2 What is absent is the median to the trunk, with a column of its own where some train rows
//       have it and some do not; to the network it is a mask. It is never 0.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/perf/model_file.hpp"
#include "io/perf/table.hpp"

namespace troupe::gpu::predict {

using io::perf::ModelT;
using io::perf::perf_row;
using row_list = std::vector<const perf_row*>;

/// ENC-1, in the order of the table's features.
std::vector<std::unique_ptr<io::perf::saved::FeatureT>> learn_features(
    const std::vector<io::perf::feature>& features, const row_list& train);

/// A number of a feature, its logarithm where it goes by that; `absent` where it has none.
double transformed(const io::perf::saved::FeatureT& f, double raw) noexcept;

/// The code of a level, from 1 on; 0 where it is none of the feature's.
int code_of(const io::perf::saved::FeatureT& f, const std::string& word);

/// The trunk's columns of a row: out [trunk_columns(m)].
void write_trunk_row(const ModelT& m, const perf_row& row, double* out);

/// Rows as a network takes them.
struct network_rows {
  int rows = 0, numbers = 0, categories = 0;
  std::vector<float> z;         ///< [rows, numbers], kept within the training range
  std::vector<uint8_t> masked;  ///< [rows, numbers]: absent
  std::vector<int> codes;       ///< [rows, categories]: 0 unseen, from 1 on the levels
  std::vector<float> weights = {};  ///< [rows], in the loss; empty: all alike
};
network_rows network_rows_of(const ModelT& m, const row_list& rows);

/// "group: feature" of the first that lies outside of the training range by more than a tenth of
/// it, or whose level says what a machine is and was never seen; empty where none does.
std::string outside_range(const ModelT& m, const perf_row& row);

}  // namespace troupe::gpu::predict
