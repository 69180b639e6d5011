// Many seeds, over the cores of the machine: processes that take one seed after the other.
//
//   const auto done = fuzz({.first = 1, .seeds = 1000, .kinds = all_faults()});
//
// Why processes: a world uses what a process has one of (WLD-3), and one that crashes takes no
// other with it.
//
// Invariants
//   FUZ-1  What comes of it does not depend on how many processes there are: the counts are of all
//     seeds, or the failure is that of the first seed that fails.
//   FUZ-2  A process that ends by itself is a failure of the seed it was at.
//   FUZ-3  Nothing outlives the call: a signal lets each process end the seed it is at, the second
//     one kills, and so does the death of whoever called.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/sim/simulation.hpp"
#include "io/base/error_kind.hpp"

namespace troupe::sim {

/// A process that ended by itself (FUZ-2): with what, or by which signal.
inline constexpr error_kind<int> process_ended{"process_ended", errc::bug,
                                               "its process ended with {}"};
inline constexpr error_kind<int, std::string_view> process_killed{
    "process_killed", errc::bug, "its process was ended by signal {} ({})"};

/// What is done with a seed.
using seed_runner = std::function<result<simulation_outcome>(uint64_t seed)>;

struct fuzz_options {
  uint64_t first = 1;
  uint64_t seeds = 0;
  std::vector<fault_kind> kinds;
  bool log = false;      ///< as simulation_options::log
  unsigned jobs = 0;     ///< processes; 1: none but this one; 0: one for each core
  seed_runner run = {};  ///< another one than simulate(options_of())
  int heads = 0;         ///< 2 or more: of clusters with so many
  bool swap = false;     ///< of clusters whose ranks swap
  bool budget = false;   ///< of clusters with a power budget
  bool parent = false;   ///< of clusters with one above their jobs
  bool slack = false;    ///< of clusters whose job takes slack
};

/// What a seed means. Of plain clusters, and all that befalls these, a twentieth of the seeds has a
/// power budget, another one has one above its job, with all that befalls such, and another one a
/// monitor, a predictor and machines that become slow.
simulation_options options_of(const fuzz_options& options, uint64_t seed);
/// The command that runs a seed of these again.
std::string replay_command(const fuzz_options& options, uint64_t seed);

/// The first seed that failed.
struct fuzz_failure {
  uint64_t seed = 0;
  error what;                       ///< bug where something was violated
  std::vector<std::string> faults;  ///< as simulation_outcome::faults
};

struct fuzz_outcome {
  uint64_t faults = 0;
  uint64_t events = 0;
  folder_counts folders;
  uint64_t takeovers = 0;
  swap_counts swaps;
  std::optional<fuzz_failure> failure;  ///< then not all seeds are counted
  int signal = 0;                       ///< that ended it
};

/// Blocks SIGINT, SIGTERM and SIGHUP meanwhile, but for a single process. Errors: io, where there
/// can be no processes.
result<fuzz_outcome> fuzz(const fuzz_options& options);

}  // namespace troupe::sim
