// Learns a predictor from rows, chooses its kind, and says how sure it is.
//
// Choices and intervals come from rows that the model they judge has not learned from: models of
// folds, each without some CPU models and without some rows of the others, and the rows handed in
// to choose by (val). The folds are fitted side by side, each by one thread, and give the same bits
// whatever the number of threads.
//
// Invariants
// FIT-1 Nothing depends on rows that are not handed in, nor on the order in which they are.
// FIT-2 `auto` is never a kind that was worse than the trunk on the rows it was chosen by; where
//       there are none, it is the trunk.
// FIT-3 The neighbours' bandwidth is taken only if rows of CPU models held out do not lose by it.
// FIT-4 Extra rows (io/perf/extra.hpp) judge nothing, are no neighbours and complete no rows; a
//       fold has none of the CPU models that it holds out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpu/predict/predictor.hpp"

namespace troupe::gpu::predict {

struct fit_options {
  std::string kind = "auto";  ///< or one of `kinds`
  uint64_t seed = 0;
  int seeds = 1;    ///< networks from `seed` on, whose answers are averaged
  int passes = 0;   ///< of the network; 0: by the number of rows
  int threads = 2;  ///< side by side; nothing depends on it
  /// Whether the network has its blocks within groups of features, and the one between them: to see
  /// what each is worth.
  bool intra = true, inter = true;
  std::string program = "troupe";
  /// Rows that are learned from beside the train rows, by their weights (FIT-4); those without all
  /// their labels are left out.
  row_list extra = {};
  /// "what", steps done, of how many; called by one thread at a time.
  std::function<void(const std::string&, int, int)> progress = {};
};

inline constexpr error_kind<std::string_view, size_t, size_t> too_few_rows{
    "too_few_rows", errc::bad_data, "{}: {} train rows with labels; expected {} at least",
    "add rows, or labels that are missing; of few, `troupe predict split --val 0 --test 0.1` "
    "leaves most to train on"};
inline constexpr size_t fewest_rows = 10;

inline constexpr error_kind<std::string_view, size_t, size_t, size_t> too_many_numbers{
    "too_many_numbers", errc::bad_data,
    "{}: {} train rows of {} columns; expected {} numbers at most",
    "each level of a category is a column: leave out the one with the most levels, or rows"};
/// Rows times columns of a fit: each of the fits side by side has some copies of so many numbers.
inline constexpr size_t most_cells = 1 << 25;

/// Whether so many train rows, and extra ones beside them, can be learned from. Errors:
/// too_few_rows, too_many_numbers.
status check_rows(const io::perf::perf_table& table, const row_list& train,
                  const row_list& extra = {});

/// What a kind is chosen by.
enum class chosen_by : uint8_t { val, models, rows, nothing };
/// "val", "cpu_models" (held out), "rows" (held out at random: there are few CPU models), "nothing"
/// (there are too few rows to hold any out).
std::string_view to_string(chosen_by by) noexcept;

chosen_by choice_of(const row_list& train, const row_list& val);

/// A model of a table from its train rows, and val rows to choose by (may be empty). Rows without
/// all their labels are left out. Errors: those of check_rows.
result<ModelT> fit_predictor(const io::perf::perf_table& table, const row_list& train,
                             const row_list& val, const fit_options& options);

/// Whether the same fit serves both kinds ("auto" as well): only what is made of it differs.
bool fitted_alike(std::string_view a, std::string_view b);

/// Fits once what fit_predictor() fits for each of the kinds, all of which are fitted alike; `each`
/// has the predictor as every kind in turn. options.kind has no meaning. Errors: those of
/// fit_predictor, the first of `each`.
status fit_kinds(const io::perf::perf_table& table, const row_list& train, const row_list& val,
                 const fit_options& options, const std::vector<std::string>& kinds_wanted,
                 const std::function<status(predictor&)>& each);

}  // namespace troupe::gpu::predict
