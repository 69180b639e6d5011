// Learns a predictor from rows, chooses its kind, and says how sure it is.
//
// Choices and intervals come from rows that the model they judge has not learned from: models of
// folds, each without some CPU models and without some rows of the others, and the rows handed in
// to choose by (val). The folds are fitted side by side, each by one thread, and give the same bits
// whatever the number of threads.
//
// Invariants
// FIT-1 Nothing depends on rows that are not handed in, nor on the order in which they are.
// FIT-2 `auto` is never a kind that was worse than the trunk on the rows it was chosen by.
// FIT-3 The neighbours' bandwidth is taken only if rows of CPU models held out do not lose by it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpu/predict/predictor.hpp"

namespace troupe::gpu::predict {

struct fit_options {
  std::string kind = "auto";  ///< or one of `kinds`
  uint64_t seed = 0;
  int epochs = 0;   ///< of the network; 0: by the number of rows
  int threads = 2;  ///< side by side; nothing depends on it
  std::string program = "troupe";
  /// "what", steps done, of how many; called by one thread at a time.
  std::function<void(const std::string&, int, int)> progress = {};
};

inline constexpr error_kind<std::string_view, size_t, size_t> too_few_rows{
    "too_few_rows", errc::bad_data, "{}: {} train rows with labels; expected {} at least"};
inline constexpr size_t fewest_rows = 10;

/// A model of a table from its train rows, and val rows to choose by (may be empty). Rows without
/// all their labels are left out. Errors: too_few_rows.
result<ModelT> fit_predictor(const io::perf::perf_table& table, const row_list& train,
                             const row_list& val, const fit_options& options);

}  // namespace troupe::gpu::predict
