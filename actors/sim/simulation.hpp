// A cluster's launch in simulation: the real coordinator, nodes, run, stages, workers and loaders;
// simulated devices and disks; faults; and what must hold whatever happens.
//
// A simulation has launches: when a run has ended badly, a person starts the cluster again, in a
// new epoch, from the last checkpoint on the disk. Within a launch a job that recovers has epochs
// of its own; each launch leaves room for theirs.
//
// Invariants that are checked while it runs
//   SIM-1  One coordinator acts in an epoch.
//   SIM-2  RunEnded comes exactly once where the coordinator's process lives, and no step after it.
//   SIM-3  Steps are reported one by one, beginning behind the checkpoint that was resumed from;
//     in a later epoch of the launch, behind one that was committed, and not older than the newest
//     that had been told of.
//   SIM-4  A run that says it succeeded has done all its steps and left a whole checkpoint of them.
//   SIM-5  A folder with a checkpoint's name is whole, whatever crashed when.
//   SIM-6  Every request has a time limit; every launch ends.
//   SIM-7  No actor outlives its node's actor.
//   SIM-8  Mailboxes stay bounded.
//   SIM-9  A message of an old epoch changes nothing.
//   SIM-10  A checkpoint that a person was told of survives whatever crashes.
//   SIM-11  What is reported of a step is what its ranks used, whatever is set meanwhile.
//   SIM-12  It goes from a tier only for as many newer ones of its own line as that tier's
//     retention wants, whatever starts from nothing or from an older one come between. Looked at
//     after each event that changes a tier.
//   SIM-13  A start takes the newest that is left, in whichever tier, of what led to where the last
//     one was.
//   SIM-14  A model that is told of is that of the checkpoint (job_folders.hpp, where the job has
//     real folders: their locks and what is a person's are looked after there, too).
//   SIM-15  What succeeds while nothing ails the tiers has its last checkpoint in the second tier.
//   SIM-16  As long as a spare is left, or the nodes for one replica where the job goes on with
//     fewer, a lost node costs no launch, though its process stays away.
//   SIM-23  Who is named for an incident, or evicted, was touched by a fault.
//   SIM-24  Incidents follow one another, and so do the epochs that they lead to: one recovery at a
//     time.
//
// Of a job that swaps SIM-25 to SIM-27 (drives.hpp), of one with a power budget SIM-28 and SIM-29
// (power_watch.hpp), of one with a budget above it SIM-30 to SIM-32 (parent_watch.hpp), SIM-34
// and SIM-35 (hold_watch.hpp), of one with a monitor SIM-36 to SIM-38 (slowness_watch.hpp), of one
// that takes slack SIM-39 to SIM-44 (slack_watch.hpp).
//
// Of a job with several heads (heads.hpp; heads_watch.hpp counts votes a second time):
//   SIM-17  A voter promises an epoch to one head, and knows of it in its next process. Who acts in
//     an epoch has more than half of all votes, and nobody else gives orders in it.
//   SIM-18  What a head was answered that a majority holds is known to each head elected after
//     that; nothing that it says after another was elected is answered so.
//   SIM-19  A checkpoint that was told of is what the next head begins from, or older than that. A
//     head commits none after another was elected, unless it had asked its voters before that.
//   SIM-20  Once faults are over and more than half of the voters are there, the job comes to its
//     end, in order, without a person.
//   SIM-21  Once it has ended no head acts any more, and each head and node ends, but for a standby
//     that was cut off from the head that ended it, which waits.
//   SIM-22  No step is made for a head whose voters have not answered for long.
//
// A tier that is full or gone for a while fails saves and copies, which costs no run that has
// begun: its last save falls to the second tier, or waits. A start waits for the first tier, and
// does without the second. Not simulated: a second launcher beside nodes that outlived the first
// one, and what the launcher itself does before it holds its folders (apps/up).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/job/spawn_record.hpp"
#include "actors/sim/environment.hpp"
#include "actors/sim/fault_record.hpp"
#include "actors/sim/faults.hpp"
#include "actors/sim/slack_watch.hpp"
#include "actors/sim/slowness_watch.hpp"
#include "actors/sim/world.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::sim {

/// What is beside a head.
enum class predictor_is : uint8_t {
  absent,
  working,
  hung,    ///< with its first message
  killed,  ///< before it
};

/// What the pacer of a job that takes slack plans by.
enum class slack_from : uint8_t {
  beside,    ///< as simulation_options::beside has it
  profile,   ///< what clocks cost simulated devices
  measured,  ///< what it measures of them in its first steps
};

struct simulation_options {
  /// A person's job, settled, of which the cluster is as much as can be simulated (persons_job.hpp,
  /// which sets what of the options follows from it). None: one by the options alone.
  std::shared_ptr<const config::job> of;
  uint64_t seed = 1;
  int nodes = 2;
  int workers = 1;  ///< per node
  int pipeline = 1;
  int micro_batches = 2;
  int steps = 10;
  int checkpoint_every = 4;
  config::when_busy when_busy = config::when_busy::block;
  int validate_every = 0;
  int64_t heartbeat_ms = 200;
  int64_t suspect_after_ms = 600;
  int64_t dead_after_ms = 2000;
  int64_t join_timeout_ms = 10'000;
  int64_t meter_ms = 500;  ///< between two readings of the simulated meters; 0: none
  double budget_w = 0;     ///< power.budget_w; 0: none
  double ramp_w_s = 0;     ///< power.ramp_w_s; 0: none
  bool slack = false;      ///< power.slack
  double power_parent_w = 0;  ///< of a power budget above the job; 0: none (parent_budget.hpp)
  bool power_pulls = false;   ///< that one pulls its brake by itself (BGT-10)
  bool power_thresholds = false;  ///< it promises more than it has (thresholds, by POLCA's rungs)
  std::vector<fault> faults;
  timing times;
  link_options links;
  int launches = 1;  ///< how often the cluster is started
  int64_t head_grace_s = 5;        ///< if it recovers: nodes look for another coordinator
  int heads = 0;                   ///< of cluster.heads; fewer than 2: the job has one
  int64_t head_takeover_s = 2;     ///< recovery.head_takeover_s
  int64_t prepare_ns = 50'000'000;  ///< of a head that is to act
  bool recovers = false;           ///< a lost node costs no launch: its process is started again
  int spares = 0;                  ///< further nodes, which stand in for lost ones
  bool fewer_replicas = false;     ///< recovery.fewer_replicas
  bool relaunches = true;          ///< else processes that are lost stay away until the next launch
  int64_t launch_ns = 40'000'000;  ///< from the order to the start of a process
  int64_t work_ns = 0;             ///< that a launch may take on top of what any may
  /// The share of starts after the first for which a person names an older checkpoint, or nothing,
  /// rather than leave it to `auto`; such a person starts after a success, too.
  double returns = 0;
  int keep = 0;  ///< checkpoint.keep
  bool second = false;                    ///< there is a second tier
  int second_keep = 0, second_every = 0;  ///< as checkpoint.second
  int64_t copy_slot_ns = 1'000'000;       ///< of each slot that is copied there
  double wipes = 0;  ///< the share of starts after the first before which a person clears a tier
  swap_shape swap;   ///< how ranks swap; by default all is in memory
  bool real_folders = false;  ///< locks and exports are made on a real file system
  /// Where its actors, records and counters are; not for two at a time.
  std::shared_ptr<runtime> in = std::make_shared<runtime>();
  bool shuffle = true;
  size_t burst = 1;
  bool check = true;  ///< the invariants that cost time with each message
  uint32_t mailbox_limit = 4096;
  bool monitored = false;  ///< the real monitor is beside each head, and an onlooker
  predictor_is predictor = predictor_is::absent;
  int quiet_steps = 0;  ///< predict.quiet_steps; 0: as usual
  /// Gives the process of a head, before it acts, what no simulated one has by itself; of a job
  /// with one head.
  std::function<void(world&, train::spawn_record&)> beside;
  /// Sees every message that is put into a mailbox, and when; must change nothing.
  std::function<void(const any_msg&, int64_t now_ns)> sees;
  int64_t watts_each_ms = 0;  ///< of which simulation_outcome::watts are the means; 0: none
  bool log = false;  ///< tell every fault and notice on stderr
  slack_from slack_by = slack_from::beside;

  /// Within what of its begin a launch ends (SIM-6). Where a brake may come who waits for a rank
  /// waits as at the least pace, twenty times as long (paced_patience.hpp), and so do some faults,
  /// one after the other.
  int64_t launch_ends_ns() const {
    constexpr int64_t hour_ns = int64_t{3600} * 1'000'000'000;
    return (power_parent_w > 0 ? 60 : 3) * hour_ns + work_ns;
  }

  /// How long nodes may stay without a coordinator (NOD-1, NOD-7).
  int64_t lingering_ms() const {
    return join_timeout_ms + 2 * dead_after_ms + (recovers ? head_grace_s * 1000 : 0) + 10'000;
  }
};

/// How it went.
struct simulation_outcome {
  uint64_t seed = 0;
  std::optional<std::string> violation;
  world_counts counts;
  uint64_t fingerprint = 0;
  int64_t virtual_ns = 0;
  double wall_s = 0;
  uint64_t steps = 0;  ///< reported over all launches
  uint64_t last_step = 0;                  ///< the last of them
  int64_t first_step_ns = -1;              ///< when the first one was reported; -1: none was
  int64_t last_step_ns = -1;               ///< the same of the last
  std::vector<double> watts;               ///< of all devices, from the begin
  std::vector<double> losses;              ///< of each that was reported; made up
  std::vector<fbs::IncidentT> recoveries;  ///< over all launches
  int launches = 0;
  std::vector<std::string> faults;   ///< those that were done
  std::vector<missed_fault> missed;  ///< those that had no effect
  std::vector<std::string> ends;     ///< how each launch ended
  uint64_t checkpoints = 0;          ///< committed, of launches that told their end
  uint64_t skipped_checkpoints = 0;  ///< the same
  double checkpoint_wait_ms = 0;     ///< the same
  folder_counts folders;
  uint64_t takeovers = 0;  ///< by heads that stood by
  swap_counts swaps;
  slowness_counts slowness;
  bool takes_slack = false;
  slack_counts slack;
};

/// Adds what a launch told of its steps, checkpoints and recoveries.
void add_told(const told& heard, simulation_outcome& into);

/// The job of a simulated cluster. Errors: bad_config, where the numbers do not fit together.
result<config::job> simulated_job(const simulation_options& options);

/// The world that such a cluster is in: the head, its nodes, and who is above it.
world_options world_of(const simulation_options& options);

/// Errors: bad_config; what is violated stands in the outcome.
result<simulation_outcome> simulate(const simulation_options& options);

/// The options of a fuzzed seed: a random small cluster with random faults of these kinds.
simulation_options fuzzed(uint64_t seed, const std::vector<fault_kind>& kinds);
/// The same of a cluster with so many heads, of which 2 or more.
simulation_options fuzzed_heads(uint64_t seed, const std::vector<fault_kind>& kinds, int heads);
/// The same of a cluster whose ranks swap.
simulation_options fuzzed_swap(uint64_t seed, const std::vector<fault_kind>& kinds);
/// The devices of a cluster, those of its spares too.
double devices_of(const simulation_options& o);
/// A cluster with a monitor and perhaps a predictor, some machines of which become slow.
simulation_options fuzzed_watched(uint64_t seed, const std::vector<fault_kind>& kinds);
/// A cluster whose job takes slack, and what befalls its clocks.
simulation_options fuzzed_slack(uint64_t seed, const std::vector<fault_kind>& kinds);
/// A power budget that the slowest steps of all its devices keep, in watts.
double least_budget_w(const simulation_options& o);
/// The same of a cluster with a power budget that its slowest steps keep.
simulation_options fuzzed_budget(uint64_t seed, const std::vector<fault_kind>& kinds);
/// The same of one with a power budget above it, and perhaps one of its own.
simulation_options fuzzed_parent(uint64_t seed, const std::vector<fault_kind>& kinds);

}  // namespace troupe::sim
