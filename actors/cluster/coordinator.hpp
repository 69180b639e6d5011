// The coordinator: admits nodes, gives them ranks, starts the run, watches who is alive, and ends
// everything in order.
//
// Messages: Hello, Heartbeat, Leave from nodes; StopTraining from the launcher or a person;
// RunEnded from the run.
//
// Invariants
//   CRD-1  The run starts once, when every configured node has joined and has its ranks.
//   CRD-2  The end is told to the reporter exactly once, with the first reason, and from here: run
//     and coordinator may find different ones at the same time.
//   CRD-4  A process that was refused is not observed.
//   CRD-3  After the end every node is told to shut down; the coordinator goes when they are gone
//     or the grace is over.
//   CRD-5  A message of an epoch that has ended changes nothing.
//   CRD-6  A run whose actor dies without a word is an end, too.
//   CRD-8  One death has one wording: where a launcher sees how processes end, a broken connection
//     and what failed because of it wait a second for its word.
//   CRD-7  Connections that came to nothing are told of once for each reason, and shown in the
//     status as they grow.
//
// Failure policy: a dead node ends the run (recovery is another part's work); a refused node is
// counted and the cluster goes on.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "actors/base/traced.hpp"
#include "actors/checkpoint/catalog.hpp"
#include "actors/cluster/door.hpp"
#include "actors/cluster/liveness_policy.hpp"
#include "actors/cluster/membership_policy.hpp"
#include "actors/train/plan.hpp"
#include "actors/train/run.hpp"
#include "messages/actors.hpp"

namespace troupe::cluster {

struct coordinator_state;
using coordinator_pointer = traced_pointer<coordinator_actor, coordinator_state>;

struct coordinator_options {
  train::job_plan plan;
  uint32_t epoch = 1;
  std::optional<checkpoint::entry> resume;
  io::checkpoint::origin origin = {};  ///< of what is saved
  reporter_actor reporter;
  desk_actor desk;          ///< told of every process that joins
  observer_actor observer;  ///< of this process
  /// Makes the archive; empty: the real one. A simulation puts its own in.
  std::function<archive_actor(coordinator_pointer self)> make_archive = {};
  /// Makes the carrier, where the job has a second tier; empty: the real one.
  std::function<carrier_actor(coordinator_pointer self)> make_carrier = {};
  /// Makes the run; empty: the real one. A replay puts its own in.
  std::function<run_actor(coordinator_pointer self, train::run_options options)> make_run = {};
};

/// A node that has joined.
struct member {
  std::string name;
  node_actor handle;
  fbs::HelloT hello;
  loader_actor loader;
  bool gone = false;
  std::optional<int64_t> broken_ns;  ///< when its connection broke, while its end is not worded
  caf::strong_actor_ptr observer;
};

struct coordinator_state {
  static inline const char* name = "coordinator";

  coordinator_options options;
  std::optional<membership_policy> membership;
  std::optional<liveness_policy> liveness;
  std::map<uint32_t, member> members;  ///< by index
  train::device_choice devices;        ///< once ranks are assigned
  run_actor run;
  archive_actor archive;
  carrier_actor carrier;            ///< none without a second tier
  std::vector<stage_actor> stages;  ///< by rank
  size_t assigned = 0;
  bool assigning = false;
  bool ended = false;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  std::optional<msg<fbs::RunEnded>> unexplained;  ///< CRD-8
  int64_t unexplained_ns = 0;
  std::string config_toml;
  door_counts door;  ///< as last shown
};

coordinator_actor::behavior_type coordinator(coordinator_pointer self, coordinator_options options);

}  // namespace troupe::cluster
