// What `troupe predict` does, a function per verb; predict.cpp knows the command line.
//
// Invariants
// PRV-1 predictions.csv begins with the columns dataset,row_id,output,pred and has a line per row
//       and output, with all digits; lower, upper, flag follow.
// PRV-2 `train` and `ask` read no label of a test row; `eval` those of the part it judges.
// PRV-3 What is wrong ends with its file, line and id, and leaves no half file: files are made
//       beside their names and renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/job_arguments.hpp"
#include "apps/report/report.hpp"
#include "gpu/predict/predictor.hpp"
#include "io/perf/split.hpp"
#include "io/perf/table.hpp"

namespace troupe::apps::predict {

struct study_sum;

/// What the person typed; each verb uses some of it.
struct arguments {
  std::string data, split, dataset = "*", out, kind = "auto", part = "test";
  std::vector<std::string> models, set;
  std::string row, predictions, by = "random";
  std::string folds, studied = "all", svg, extra;
  uint64_t seed = 0, seeds = 1;
  int passes = 0, threads = 0;
  double val_share = 0.2, test_share = 0.2;
  bool json = false;
  bool draw = false;      ///< on the terminal
  bool of_split = false;  ///< an option was given that chooses rows of a split
  bool of_study = false;  ///< an option was given that a study alone has
  job_arguments job;      ///< what is to run on a machine that is probed
  bool full = false, again = false;
  std::string id, label = "tokens_per_s", folder = ".";
};

result<int> train(const arguments& a);
result<int> ask(const arguments& a);
/// Judges predictions, or, where none are named, makes a study.
result<int> eval(const arguments& a);
/// Every kind over every fold and seed (study.cpp).
result<int> study(const arguments& a);
/// The same, for whoever judges it: one sum for each data set and kind. Errors: usage, those of
/// readers.
result<std::vector<study_sum>> studied(const arguments& a);
result<int> make_split(const arguments& a);
/// What a prediction is made of, and what predictions of a split's rows hang on.
result<int> explain(const arguments& a);
/// What jobs have taught, as tables to learn from (export.cpp).
result<int> export_learned(const arguments& a);
/// What this machine is and does at most (probe.cpp).
result<int> probe(const arguments& a);

/// The models named: files, or every .tpm of a folder, by data set. Errors: not_found.
result<std::map<std::string, std::filesystem::path>> models_named(
    const std::vector<std::string>& names);
/// Whether a model is one of a table: of its data set, and of the same features in the same units.
/// Errors: bad_model.
status check_features(const gpu::predict::ModelT& m, const io::perf::perf_table& t,
                      const std::string& file);
/// The rows of --row, a file, and --set. Errors: usage, bad_csv, bad_data.
result<std::vector<io::perf::perf_row>> described(const arguments& a,
                                                  const gpu::predict::ModelT& m);

/// Says of which features rows were completed, and with what in the first such row.
void say_completed(const gpu::predict::ModelT& m, const std::vector<io::perf::perf_row>& rows,
                   const std::vector<gpu::predict::prediction>& answers);

/// The data sets of a split that fit the pattern. Errors: usage where none does.
result<std::vector<std::string>> sets_of(const io::perf::split& s, const std::string& pattern,
                                         const std::string& file);
/// Writes DATASET-WHAT.svg into the folder of --svg, which it makes. Errors: those of files.
status write_picture(const arguments& a, const std::string& dataset, const std::string& what,
                     const std::string& picture);
/// Of --draw: as wide as the terminal is, 100 columns at most.
report::canvas canvas_here();
/// How many fits side by side.
int threads_of(const arguments& a) noexcept;
/// "train", "val" or "test". Errors: usage.
result<io::perf::split_part> part_of(const std::string& word);

/// A filter of labels: those of the rows of some parts of a split.
io::perf::label_filter labels_of(const io::perf::split& s, const std::string& dataset,
                                 std::vector<io::perf::split_part> parts);

/// The table of --extra for a data set; labels are read of rows that are not its own. Errors: those
/// of io::perf::read_extra, bad_csv where its columns make other features than the set's.
result<io::perf::perf_table> extra_of(const arguments& a, const io::perf::perf_table& own,
                                      const io::perf::label_filter& is_own);

/// The lines of a row's predictions, as PRV-1 has them. Error: bad_data where one is not finite.
result<std::string> prediction_lines(const std::string& dataset, const std::string& id,
                                     const std::vector<std::string>& outputs,
                                     const gpu::predict::prediction& p);
inline constexpr std::string_view prediction_heading =
    "dataset,row_id,output,pred,lower,upper,flag\n";

}  // namespace troupe::apps::predict
