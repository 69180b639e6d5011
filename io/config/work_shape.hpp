// What a job's work is in numbers: what the time of its steps depends on beside how much there is
// to do. For whoever learns step times, across jobs and within one.
#pragma once

#include <cstdint>
#include <vector>

#include "io/config/job.hpp"

namespace troupe::config {

/// Places of work_shape_of's numbers.
enum class work_feature : uint8_t {
  layers,
  hidden,
  batch,
  micro_batch,
  seq_len,
  replicas,
  stages,
  threads,
  number_bytes,
  device,
  recompute,
  optimizer,
  count,
};

/// Each above 0, and as many for every job, by work_feature.
std::vector<double> work_shape_of(const job& of);

}  // namespace troupe::config
