// Which machines a run is on, as what such runs are remembered by (apps/past_steps.hpp): this one
// alone, or those that its nodes told of or a file does.
//
// Invariants
//   RMA-1  Machines have one name where they are as quick for the same work, as far as profiles
//     tell: processors, GPUs where these compute, the network card's rate, place by place of the
//     job, how many workers each has, and which places share a machine. Their hosts' names and
//     what they were probed to do have no part in it: the former change, the latter differ from
//     look to look.
//   RMA-2  Nothing is guessed: where a place has not told what its machine is there is no name.
//   RMA-3  A run whose places changed to other machines was on none of both, and one of which a
//     place did not tell at some time what its machine is has no name for good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/config/job.hpp"
#include "io/perf/hw_profile.hpp"

namespace troupe::apps {

/// The name of this machine where a job is on it alone: the file of past runs is this machine's.
inline constexpr std::string_view this_machine_alone = "this";

struct run_machines {
  std::string name;      ///< short, and the same for machines that are as quick (RMA-1)
  double threads = 1;    ///< of a rank; where places differ, the fewest
  bool on_gpus = false;  ///< some of them compute on GPUs
};

/// Whether GPUs compute a job here, as nodes are handed theirs.
bool is_on_gpus(const config::job& job);

/// Whether GPUs compute a job on such a machine, as far as its profile tells.
bool is_on_gpus(const config::job& job, const io::perf::hw_profile& machine);
/// Of a place of the job; one at least.
int64_t workers_at(const config::job& job, size_t place);

/// Nothing where other machines have a part in the job.
std::optional<run_machines> machines_here(const config::job& job);

/// A place of a job; those that share a machine have the same host.
struct run_place {
  std::string host;
  io::perf::hw_profile is = {};
};
/// Of a job's places, in their order, all of them (RMA-2).
std::optional<run_machines> machines_of(std::span<const run_place> places, const config::job& job);

/// What the places of a job that runs tell of their machines, one after the other.
class told_places {
 public:
  /// Nodes whose GPUs compute tell nothing: those that do compute on processors, whatever else
  /// they have.
  explicit told_places(config::job job);

  /// True where that was the last one to tell: from now on all are known.
  bool hear(size_t place, run_place is);
  /// RMA-3. Nothing before all have told.
  const std::optional<run_machines>& machines() const noexcept { return machines_; }

 private:
  void forget();

  config::job job_;
  std::vector<std::optional<run_place>> places_;
  std::optional<run_machines> machines_;
  bool is_unknown_ = false;  ///< for good
};

}  // namespace troupe::apps
