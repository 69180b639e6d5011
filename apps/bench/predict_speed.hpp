// `troupe bench predict`, speed: what a predictor of machines costs to make and to ask.
//
// `troupe predict train` makes one of each of two public data sets with all its choices, as a
// process of its own, which says how long it took and the most memory that it had; then each test
// row is asked about by itself. Rounds take turns among the sets.
//
// Invariants
//   BPV-1  A fit is the product's own verb from its start to its model's file, reading included.
//   BPV-2  What is asked about has no label.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "io/base/result.hpp"

namespace troupe::apps::predict_bench {

/// A data set, and how long its fit may take.
struct speed_set {
  std::string dataset;
  double fit_aim_s = 0;
};

struct speed_plan {
  std::filesystem::path data = "../shared/data/perfcast";
  std::filesystem::path folder;  ///< for models, marked as scratch
  std::vector<speed_set> sets = {{"spr_CINT2017rate", 30}, {"spec17_Int_rate", 180}};
  int rounds = 1;
  int passes = 0;                           ///< of a network over its rows; 0: as many as are usual
  const std::atomic<bool>* stop = nullptr;  ///< a person interrupts
};

struct speed_row {
  speed_set set;
  size_t rows = 0;                         ///< that were learned from
  std::string kind;                        ///< that was chosen
  std::vector<double> fit_s, processor_s;  ///< by round
  std::vector<double> peak_mib;            ///< by round
  std::vector<double> ask_ms;              ///< by question
};

struct speed_measurement {
  int threads = 0;  ///< that fits have
  std::vector<speed_row> rows;
};

/// What is missed, a line each: the fit's time as said, 300 MiB, a millisecond a question; medians.
struct speed_verdict {
  std::vector<std::string> missed;
  bool met() const { return missed.empty(); }
};
speed_verdict verdict_of(const speed_measurement& m);

/// The file or data set that is not there.
std::optional<std::string> missing_of(const speed_plan& plan);

/// Errors: unavailable where no model is made; those of readers; cancelled.
result<speed_measurement> measure_speed(const speed_plan& plan);

std::string text_of(const speed_measurement& m);
nlohmann::ordered_json json_of(const speed_measurement& m);

}  // namespace troupe::apps::predict_bench
