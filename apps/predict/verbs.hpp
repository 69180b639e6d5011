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
#include <string>
#include <vector>

#include "gpu/predict/predictor.hpp"
#include "io/perf/split.hpp"
#include "io/perf/table.hpp"

namespace troupe::apps::predict {

/// What the person typed; each verb uses some of it.
struct arguments {
  std::string data, split, dataset = "*", out, kind = "auto", part = "test";
  std::vector<std::string> models, set;
  std::string row, predictions, by = "random";
  uint64_t seed = 0;
  int passes = 0, threads = 0;
  double val_share = 0.2, test_share = 0.2;
  bool json = false;
  bool of_split = false;  ///< an option was given that chooses rows of a split
};

result<int> train(const arguments& a);
result<int> ask(const arguments& a);
result<int> eval(const arguments& a);
result<int> make_split(const arguments& a);

/// The data sets of a split that fit the pattern. Errors: usage where none does.
result<std::vector<std::string>> sets_of(const io::perf::split& s, const std::string& pattern,
                                         const std::string& file);
/// "train", "val" or "test". Errors: usage.
result<io::perf::split_part> part_of(const std::string& word);

/// A filter of labels: those of the rows of some parts of a split.
io::perf::label_filter labels_of(const io::perf::split& s, const std::string& dataset,
                                 std::vector<io::perf::split_part> parts);

/// The lines of a row's predictions, as PRV-1 has them. Error: bad_data where one is not finite.
result<std::string> prediction_lines(const std::string& dataset, const std::string& id,
                                     const std::vector<std::string>& outputs,
                                     const gpu::predict::prediction& p);
inline constexpr std::string_view prediction_heading =
    "dataset,row_id,output,pred,lower,upper,flag\n";

}  // namespace troupe::apps::predict
