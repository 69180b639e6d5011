// What this machine has for a job, as plain numbers: checks of jobs are given it, and tests give
// them machines that do not exist.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/error.hpp"
#include "io/config/job.hpp"

namespace troupe::train {

/// A GPU of it.
struct machine_gpu {
  std::string name;
  uint64_t memory_bytes = 0;
};

/// What processes of this user may use of it.
struct machine {
  uint64_t memory_bytes = 0;  ///< 0: not known
  std::string memory_whose;   ///< "this machine", or "the control group of this process"
  int64_t cores = 1;
  std::vector<machine_gpu> gpus;
  error no_gpus;  ///< why there are none
};

/// This machine; GPUs are looked for only where a job may use them.
machine this_machine(const config::cluster_section& cluster);

/// Threads that a worker of the job has where its node has so many cores.
int threads_on(const config::cluster_section& cluster, int64_t cores);

/// Threads that a worker of the job has where its node is a machine like this one.
int threads_here(const config::cluster_section& cluster);

}  // namespace troupe::train
