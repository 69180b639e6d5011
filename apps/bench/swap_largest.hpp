// The most parameters that can be trained with so much memory: of a model's shape with more and
// more layers, the largest that is planned to fit, proved by steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/bench/swap_run.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::swap_bench {

/// The deepest model that is looked for.
inline constexpr int64_t deepest_layers = 1 << 14;

/// The largest of one kind.
struct largest_model {
  int64_t layers = 0;  ///< 0: not even one fits
  uint64_t parameters = 0;
  uint64_t memory_bytes = 0, disk_bytes = 0;
  double step_s = 0;  ///< of the second of its two steps
};

struct largest_row {
  uint64_t host_bytes = 0;
  largest_model in_memory, swapped;
};

/// The most layers that fit, by plan: into the plan's host_bytes, and, of what is on the drive,
/// into `free_bytes`. 0: not even one.
int64_t most_layers_that_fit(const swap_plan& plan, way w, uint64_t free_bytes);

/// Of a budget: each kind's largest, which has made two steps. Errors: io, no_memory, cancelled.
result<largest_row> measure_largest(const swap_plan& plan);

std::string text(const std::vector<largest_row>& rows, const swap_plan& plan);
nlohmann::ordered_json json(const std::vector<largest_row>& rows, const swap_plan& plan);

}  // namespace troupe::apps::swap_bench
