// What an actor of a job is made of: the same record for whoever spawns it, be it the coordinator,
// a node, a simulation, a test or a replay. Between actors it is this struct, with handles; in a
// file it is a SpawnRecord, with their names.
//
// Invariants
//   SPN-1  An actor is made of its record and of what its process has (a host, a storage): one that
//     is made of the same record and given the same messages does the same.
//   SPN-2  What a file holds of a record, read back, is that record; the plan is made anew of the
//     resolved configuration and the files that this names.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>

#include "actors/job/catalog.hpp"
#include "actors/job/job_memory.hpp"
#include "actors/job/plan.hpp"
#include "io/perf/past_pace.hpp"
#include "messages/actors.hpp"
#include "messages/schemas/trace_generated.h"
#include "messages/schemas/train_generated.h"

namespace troupe::train {

/// What a kind of actor has no use for is left as it is.
struct spawn_record {
  uint32_t epoch = 1;
  uint32_t rank = 0;                             ///< worker, stage
  std::string node = {};                         ///< loader: the node's name
  job_plan plan = {};                            ///< coordinator, run, committer, replicator
  std::optional<checkpoint::resume_point> resume = {};  ///< as the plan
  uint64_t launch = 0;                           ///< as the plan; 0: told by no file
  uint64_t first_launch = 0;  ///< that of the first head, which this one goes on for; 0: it is this
  std::optional<job_memory> memory = {};         ///< run: what the head before has left
  std::optional<fbs::ClusterMemoryT> cluster = {};  ///< coordinator: the same
  committer_actor committer = {};
  replicator_actor replicator = {};  ///< none without a second tier
  coordinator_actor coordinator = {};
  gateway_actor gateway = {};
  observer_actor observer = {};
  reporter_actor reporter = {};
  launcher_actor launcher = {};  ///< none where others start the nodes
  monitor_actor monitor = {};    ///< none where nobody watches, as in a simulation
  predictor_actor predictor = {};  ///< none where nobody learns
  pacer_actor pacer = {};        ///< none where nobody measures, as in a simulation
  journal_actor journal = {};    ///< none where nothing is kept for a next head
  elector_actor elector = {};    ///< none where the job has one head
  run_actor run = {};
  worker_actor worker = {};
  swapper_actor swapper = {};  ///< of a worker; none where all is in memory
  /// Coordinator: of nodes that may split the layers, the oldest first.
  std::vector<io::perf::past_pace> paces = {};
  std::vector<finder_actor> finders = {};  ///< pacer in a replay, which it spawned then
  uint64_t incarnation = 0;    ///< pacer: as parent_options; 0: no budget is above its job
  std::string machine = {};    ///< pacer: as pacer_options

  /// By which the job's ranks know each other, whichever of its heads leads them.
  uint64_t whole_launch() const { return first_launch != 0 ? first_launch : launch; }
  /// Where what is saved comes from.
  io::checkpoint::origin origin() const { return checkpoint::origin_of(resume, launch); }
};

/// What a file holds of it.
fbs::SpawnRecordT data_of(const spawn_record& record);

/// Who has a name in a file; nullptr: nobody.
using name_resolver = std::function<caf::strong_actor_ptr(const std::string& name)>;

/// The record that a file holds (SPN-2). Errors: as of make_plan, and of config::parse.
result<spawn_record> record_of(const fbs::SpawnRecordT& data, const name_resolver& actor_of);

/// A role of a recording as it is called now: earlier versions said "archive", "carrier", "desk".
std::string_view present_role(std::string_view recorded);

/// Tells a recording of it, where there is one. After introduce(), before anything is sent.
void note_spawn_record(const spawn_record& record);

/// What a file holds of a predictor's, which began with these lines: all of them, or, where it has
/// no room, none.
fbs::SpawnRecordT data_of(const spawn_record& record, std::vector<std::string> times);
/// Tells a recording of it.
void note_spawn_record(const spawn_record& record, std::vector<std::string> times);

}  // namespace troupe::train
