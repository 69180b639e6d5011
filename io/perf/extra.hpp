// Rows that are learned from beside a data set's own, by a smaller weight: other machines' results
// in the form of the set's own file, as those of other generations of processors.
//
// Invariants
// XTR-1 An extra row has the id of no row of the split, whichever part it is in, nor is its label
//       read (TAB-3).
// XTR-2 Where no CPU model of the test rows is in train, a split grouped by CPU model, an extra row
//       has none of theirs either; so for val rows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/perf/readers.hpp"

namespace troupe::io::perf {

/// What an extra row counts for in a fit.
inline constexpr double extra_weight = 0.3;

/// Ids of such a set are places in its file: another file's say nothing.
inline constexpr error_kind<std::string_view> no_extra{
    "no_extra", errc::usage, "{} takes no extra rows", "its ids are places in its own file"};

/// The rows of a file in the form of the data set's own, with extra_weight: of SPEC's dump the
/// other Xeons' results of the suite. A person's own set is read by the schema in `folder`. Errors:
/// no_extra, no_dataset, bad_csv, bad_schema, same_id, those of files.
result<perf_table> read_extra(const std::filesystem::path& file,
                              const std::filesystem::path& folder, const std::string& dataset,
                              const label_filter& wanted);

/// Those that may be learned from where the split has these rows (XTR-1, XTR-2).
std::vector<const perf_row*> extra_rows(const perf_table& extra,
                                        const std::vector<const perf_row*>& train,
                                        const std::vector<const perf_row*>& val,
                                        const std::vector<const perf_row*>& test);

/// Whether a table has the features and outputs of another, in its order.
bool same_columns(const perf_table& a, const perf_table& b);

}  // namespace troupe::io::perf
