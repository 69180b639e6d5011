// Tables from files: the public data sets of a folder, and a person's own.
//
// A folder of data holds any of
//   spec17_ml/input_{Int,FP}_{rate,speed}.csv            spec17_Int_rate ..., an output a benchmark
//   spec_cpu2017_dump/cpu2017-results.csv.gz             spr_CINT2017rate ..., output `base`
//   vtrain_steptime/ground_truth_single.csv              vtrain_single, output `ms`
//   perfcastdb_sample/{train,test}_data.csv              perfcastdb_sample, output `value`
//   NAME.csv with NAME.toml beside it                    NAME, as the schema says:
//
//     id = "host"                # the column of ids
//     cpu_model = "cpu"          # optional: groups rows
//     date = "tested"            # optional: yyyymmdd, for splits by date
//     labels = ["tokens_per_s"]  # one output each; empty or not above 0: missing
//     [[feature]]
//     column = "cores"
//     group = "cpu"              # memory, cpu, system, or another name
//     unit = "1"
//     kind = "log"               # number, log or category
//     defining = false           # a category whose unseen level is outside the range
//
// Results are no features: columns t_* (the ratio is computed from them), Peak and Energy results
// are not read, and a schema that names one of its labels as a feature is refused.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/perf/csv.hpp"
#include "io/perf/table.hpp"

namespace troupe::io::perf {

/// Of a schema's file.
inline constexpr size_t max_schema_bytes = 1 << 20;

/// A schema that says something impossible: "file:line" and what.
inline constexpr error_kind<std::string_view, size_t, std::string_view> bad_schema{
    "bad_schema", errc::bad_data, "{}:{}: {}"};
inline constexpr error_kind<std::string_view, std::string_view> no_dataset{
    "no_dataset", errc::not_found, "no data set {} in {}",
    "its file is not there; docs/predict.md says which files are looked for"};

/// The folder of data itself.
inline constexpr error_kind<std::string_view> no_data_folder{
    "no_data_folder", errc::not_found, "there is no folder {}",
    "--data names the folder that data sets are in, as files or folders of their own"};

/// Why nothing of a folder fits a name or pattern: no_data_folder, or no_dataset.
error nothing_of(const std::string& pattern, const std::filesystem::path& folder);

/// The data sets that a folder holds, by name.
std::vector<std::string> datasets_in(const std::filesystem::path& folder);

/// One of them. Labels are read of the rows that `wanted` names (TAB-3). Errors: no_dataset,
/// no_data_folder, bad_csv, bad_schema, same_id, those of files.
result<perf_table> read_dataset(const std::filesystem::path& folder, const std::string& dataset,
                                const label_filter& wanted);

/// SPEC CPU2017 by benchmark, with features as lscpu has them (spec17_ml).
result<perf_table> read_spec17(const csv& file, const std::string& dataset,
                               const label_filter& wanted);
/// SPEC's dump of all results: those of 4th-generation Xeons (spr_*).
result<perf_table> read_spr(const csv& file, const std::string& dataset,
                            const label_filter& wanted);
/// The same suite's results of all other Xeons.
result<perf_table> read_other_xeons(const csv& file, const std::string& dataset,
                                    const label_filter& wanted);
/// Iteration times of language models by vTrain.
result<perf_table> read_vtrain(const csv& file, const label_filter& wanted);
/// The public sample of PerfCastDB: files in order, with the names that ids have.
result<perf_table> read_perfcastdb(const std::vector<csv>& files, const label_filter& wanted);
/// A CSV by its schema.
result<perf_table> read_own(const csv& file, std::string_view schema,
                            const std::string& schema_name, const std::string& dataset,
                            const label_filter& wanted);

/// Appends the values of one row, feature by feature.
class row_writer {
 public:
  explicit row_writer(perf_row& into) : into_(into) {}
  row_writer& number(double value) {
    into_.numbers.push_back(value);
    into_.words.emplace_back();
    return *this;
  }
  row_writer& word(std::string value) {
    into_.numbers.push_back(absent);
    into_.words.push_back(std::move(value));
    return *this;
  }

 private:
  perf_row& into_;
};

/// A label's cell: above 0, or `absent` where empty, no number, or not above 0.
double label_in(std::string_view cell) noexcept;

}  // namespace troupe::io::perf
