// Timing all operations of a model on a device, and how it is told: shared by `troupe bench ops`
// and `troupe bench gpu`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/bench/ops_cases.hpp"
#include "gpu/cuda.hpp"

namespace troupe::apps {

/// One operation, timed.
struct ops_row {
  std::string name;
  double flops = 0, bytes = 0;  ///< of one call
  int64_t per_step = 0;
  spread seconds;
  ceilings most;       ///< what the device can do, beside this row
  double floor_s = 0;  ///< a call cannot be faster; 0: unknown

  double step_s() const { return seconds.median * static_cast<double>(per_step); }
};

/// All of a model's operations that there was time for.
struct ops_report {
  std::string model;
  gpu::dtype type = gpu::dtype::f32;
  bench_shape shape{};
  std::vector<ops_row> rows;
  std::vector<std::string> left_out;  ///< names, for want of time

  double step_s() const;
  double step_flops() const;
  double peak_flops() const;  ///< the best of the rows'
};

/// What to time, against what, for how long.
struct ops_plan {
  std::string model;
  gpu::dtype type = gpu::dtype::f32;
  int64_t batch = 0;      ///< of micro-batches; 0: the shape's own
  std::string only = {};  ///< operations with this in their name
  ops_timing timing = {};
  ceilings most = {};
  /// Operations a second, asked for between rounds; null: `most` stands.
  std::function<double()> sample_peak = {};
  /// On the wall's clock (seconds_now); what begins later is left out.
  double until_s = 1e300;
};

/// Errors: usage for a model that is not known or where no operation is left; the device's.
result<ops_report> time_ops(gpu::device& on, gpu::stream& s, const ops_plan& plan);

/// For people: the head of the columns, then rows, then what they add up to.
std::string ops_heading();
std::string text(const ops_report& r);
nlohmann::ordered_json json(const ops_report& r);

/// "host", "cuda" or "cuda:N"; `options` are a GPU's. Errors: usage for another word; what the
/// device says.
result<std::unique_ptr<gpu::device>> open_bench_device(const std::string& name, int threads,
                                                       const gpu::cuda_options& options = {});
/// What became of the epilogues on a GPU; empty where there were none.
std::string epilogues_told();

}  // namespace troupe::apps
