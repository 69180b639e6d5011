// `troupe bench predict`, steps: how soon step times that others measured are foretold by what is
// learned while runs are made (gpu/predict/online_policy.hpp), beside what is plainer.
//
// Rows of vTrain's single node are told one by one, in an order drawn by seed; all that were not
// told yet are asked about. Of its clusters, a tenth after the other is asked about by all the
// rest. Beside it, by the same told rows: ridge regression of the same logarithms over the
// roofline, the roofline times one constant, and what the nearest told row reaches of its roofline.
//
// Invariants
//   BPR-1  No way sees a time of a row that it is asked about.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "io/base/result.hpp"
#include "io/perf/table.hpp"

namespace troupe::apps::predict_bench {

struct steps_plan {
  std::filesystem::path data = "../shared/data/perfcast";
  int orders = 10;  ///< of the single node's rows; and of the clusters', dealt into tenths
  uint64_t seed = 1;
};

/// Of all rows that were asked about after so many were told, in percent.
struct steps_error {
  double ours = 0, ridge = 0, roofline = 0, nearest = 0;  ///< the mean of |foretold / came - 1|
  double held = 0;                                        ///< rows within their interval
};

struct steps_row {
  size_t told = 0;
  std::vector<steps_error> rounds;     ///< an order each
  std::vector<double> fit_ms, ask_ms;  ///< a fit; a question, on the average
};

struct steps_measurement {
  std::vector<steps_row> single;
  steps_row clusters;
};

/// What was not told, foretold in seconds.
struct foretold {
  struct interval {
    double seconds = 0, least_s = 0, most_s = 0;
  };
  std::vector<interval> ours;  ///< by row that was asked about
  std::vector<double> ridge_s, roofline_s, nearest_s;
  double fit_ms = 0, ask_ms = 0;
};

/// By rows of vTrain's tables; of `asked` no label is read.
result<foretold> foretell(const io::perf::perf_table& table,
                          const std::vector<const io::perf::perf_row*>& told,
                          const std::vector<const io::perf::perf_row*>& asked);

/// The file that is not there, of those that are needed.
std::optional<std::filesystem::path> missing_of(const steps_plan& plan);

/// Tables of fewer rows are told in fewer parts. Errors: those of readers; bad_data for a table of
/// too few rows.
result<steps_measurement> measure_steps(const steps_plan& plan);

}  // namespace troupe::apps::predict_bench
