// The jobs of `troupe bench power`: small ones of ranks of a thread each, whose machine's watts are
// its busy processors by a model, so that a budget of watts is one of processors.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "io/base/result.hpp"

namespace troupe::apps::power_bench {

/// Of the model: a busy processor. No row depends on it.
inline constexpr double core_w = 11;

/// Loss by step.
using live_losses = std::map<int, double>;

struct watched_job {
  std::string name;
  std::string output = {};  ///< a name in the folder
  int nodes = 1;            ///< ranks, of a thread each, that share each batch
  int steps = 1;
  double idle_w = 0;  ///< of the machine, by the model
};

/// Writes OUTPUT.toml into the folder, and the text that the job trains on: all jobs of as many
/// nodes make the same steps. Errors: io.
status write_job(const std::filesystem::path& folder, const watched_job& job);

/// A name for a job that no other process of this machine gives to one.
std::string own_job_name();

/// Whether processors are what a job's watts are made of, by the source that its steps name, once
/// it has made so many. Errors: unavailable.
status check_modelled(const std::string& power_source, size_t steps);

}  // namespace troupe::apps::power_bench
