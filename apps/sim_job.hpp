// `troupe sim FILE.toml`: a person's own job on virtual time. What is simulated of it, and what is
// not, is actors/sim/persons_job.hpp's; this reads the file and says so.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "actors/sim/simulation.hpp"
#include "apps/job_arguments.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// Options of `troupe sim` that only mean something with a file.
struct job_simulation {
  job_arguments job;
  double gflops = 0;      ///< of a worker; 0: not said
  bool measures = false;  ///< this machine's
  bool has_one_head = false;  ///< what befalls it, befalls a job with one
};

/// A job as it is simulated, and what is said of that.
struct simulated_file {
  sim::simulation_options options;
  std::string text;  ///< lines for a person
  nlohmann::ordered_json facts;
};

/// `steps`: as the command line says; 0: it does not. Errors: as of `troupe plan`, and where it is
/// too large.
result<simulated_file> simulated_from(const job_simulation& a, int64_t steps);

}  // namespace troupe::apps
