// `troupe bench predict`, accuracy: how far predictors of machines are off, against what is to be
// reached.
//
// The study of `troupe predict eval` (apps/predict/study.cpp) over the public sets, on their random
// split and on folds by CPU model, of which each is judged by models of the others. What `auto`
// comes to is held against two errors: the one that must not be exceeded, and the one that is aimed
// at, which others reach.
//
// Invariants
//   BPA-1  What is judged is the study's: nothing is fitted or averaged here.
//   BPA-2  A data set that is not there is named, and no bar of it counts as met.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/predict/study_rows.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::predict_bench {

/// What is to be reached on a data set, as errors (MAPE) in percent.
struct accuracy_bar {
  std::string dataset;
  bool grouped = false;  ///< by CPU model; else dealt out at random
  double must = 0, aim = 0;
};
/// Of the public sets, in the order of the table.
std::vector<accuracy_bar> public_bars();

struct accuracy_plan {
  std::filesystem::path data = "../shared/data/perfcast";
  std::filesystem::path kept;        ///< a folder for the study's files, which goes on from them
  std::string kinds = "trunk,auto";  ///< or all; these two are always among them
  std::string dataset = "*";         ///< of the bars' sets
  uint64_t seeds = 1;                ///< from 0 on
  int passes = 0;                    ///< of a network over its rows; 0: as many as are usual
  std::vector<accuracy_bar> bars = public_bars();
};

struct accuracy_row {
  accuracy_bar bar;
  std::vector<predict::study_sum> kinds;  ///< empty: the data set is not there
};

struct accuracy_measurement {
  uint64_t seeds = 1;
  std::vector<accuracy_row> rows;
};

/// What is missed, a line each. Aims are reported apart: who misses one may meet what must be.
struct accuracy_verdict {
  std::vector<std::string> missed, aims_missed;
  bool met() const { return missed.empty(); }
};
accuracy_verdict verdict_of(const accuracy_measurement& m);

/// The file that is not there, of those without which there is nothing to study.
std::optional<std::filesystem::path> missing_of(const accuracy_plan& plan);

/// Errors: those of a study.
result<accuracy_measurement> measure_accuracy(const accuracy_plan& plan);

std::string text_of(const accuracy_measurement& m);
nlohmann::ordered_json json_of(const accuracy_measurement& m);

}  // namespace troupe::apps::predict_bench
