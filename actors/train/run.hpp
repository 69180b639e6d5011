// The run: the actor of the job. It does what the job's policy decides (job_policy.hpp), asks
// stages, loaders, committer and replicator, and tells the policy what came of it.
//
// Invariants
//   RUN-1  Commands are carried out in the order in which they were decided, those of one event
//     before the next is heard: SaveCheckpoint reaches every rank before the next RunStep does.
//   RUN-2  What is asked is answered to the policy once: each ask has a timeout.
//   RUN-3  RunEnded goes to the coordinator exactly once, and nothing after it (JOB-3): neither a
//     loss for a checkpoint (JOB-21), which it waits for, nor why there is none.
//   RUN-4  In a new epoch it has a new crew, and hears nothing of what it asked the one before
//     (ASK-4): of committer and replicator alone, what is said of checkpoints counts in every
//     epoch.
//   RUN-5  What a person is answered is on the disk before (JournalStatus), if it holds beyond the
//     newest checkpoint: a head that is started again keeps to it. Where it cannot be kept, that is
//     said.
//   RUN-6  Where the job has several heads, a checkpoint is committed only after a majority of
//     voters has said that it still follows this one (actors/heads/elector.hpp): a head that wakes
//     up in the place of another commits nothing.
//   RUN-7  Data may take longer than a start may (timeouts.start_s) while one of their loaders
//     tells how far it has come, in a recovery as in a start: they are asked for again, the first
//     request goes on meanwhile (LDR-7).
//
// Failure policy: a failed save is a warning, except the last one; so are a model that was not
// written and a copy that is late; a lost node, or a step that fails as where one is lost, begins a
// new epoch (JOB-11); any other failure ends the run.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/job/spawn_record.hpp"
#include "actors/train/addresses.hpp"
#include "actors/train/device_policy.hpp"
#include "actors/train/drill_policy.hpp"
#include "actors/train/job_policy.hpp"
#include "actors/train/work_pace_policy.hpp"
#include "messages/actors.hpp"

namespace troupe::train {

/// A host's loader and the ranks it serves.
struct host_loader {
  loader_actor loader;
  std::vector<uint32_t> ranks;
};

/// Whom it trains with; told by the coordinator once the nodes have their ranks.
struct run_crew {
  std::vector<stage_actor> stages;  ///< by rank
  std::vector<std::string> hosts;   ///< by rank: the address its groups listen on
  std::vector<int> threads;         ///< by rank
  device_choice devices;            ///< by rank
  std::vector<std::string> nodes;   ///< by place
  std::vector<host_loader> loaders;
};

/// The crew as the coordinator names it. Errors: bug, where it does not fit the plan.
result<run_crew> crew_of(const job_plan& plan, const msg<fbs::ClusterReady>& m,
                         const std::vector<caf::strong_actor_ptr>& handles);

/// The copies that a rank's process holds.
std::vector<held_copy> copies_in(const msg<fbs::CopiesFound>& m);

/// The checkpoint that the committer names. Errors: bad_data, where its state cannot be read.
result<checkpoint::resume_point> choice_in(const msg<fbs::CheckpointChosen>& m);

/// Whom a person's request is answered to.
struct asked_by {
  caf::typed_response_promise<msg<fbs::Ack>> promise;
  message_header cause;
};

/// An answer to a person that waits until what it promises is on the disk (RUN-5).
struct kept_back {
  uint64_t record = 0;  ///< the newest that it waits for
  asked_by whom;
  result<reply> said;
};

/// What all ranks of an epoch have written of a step.
struct written_shards {
  uint32_t epoch = 0;
  std::vector<msg<fbs::Saved>> votes;
};

/// What the pacer says, and what comes of it.
struct run_power {
  work_pace pace, step_pace;  ///< of the next step, of the last one that began
  bool holds = false;         ///< no step may begin
  std::string reason = {};    ///< why, as a person was told
  double power_w = -1, energy_j = -1;
  fbs::PowerSource source = fbs::PowerSource::unknown;
  double wait_ms = 0, step_wait_ms = 0;  ///< in all, of the last step
  std::optional<int64_t> waits_since_ns = {};  ///< since it alone lets no step begin
  uint64_t word = 0, step_word = 0;  ///< of the pacer: heard last, and before the last step began
  uint32_t word_of_1024 = 0;         ///< the pace of the last one; 0: no step may begin
  /// By what the first operations are held back, of the next step and of the one that began last.
  uint64_t start_offset_us = 0, step_offset_us = 0;
  double told_budget_w = 0;          ///< as the pacer knows it
  uint64_t told_step = 0;            ///< that it knows to be made; 0: none
  uint64_t told_word = 0;            ///< that it knows to be heard
  std::optional<int64_t> old_end_by_ns = {};  ///< ranks of the epoch before have ended by then
  bool told_paused = false;          ///< by a person, as it knows
  bool told_armed = false;           ///< brake_armed, as it knows
  bool brakes = false;               ///< operations are held within the step
  uint64_t brake_orders = 0;         ///< to the stages; what comes of an earlier one is not heard
  bool brake_asked = false;          ///< the last order is not answered by all yet
  bool brake_armed = false;          ///< all stages have answered the last one
  std::optional<heard::stop> stop = {};  ///< the last one
  bool stop_waits = false;               ///< for the brake's end, as a person was told
};

/// What a rank's operations took in its last steps at the highest clocks, of each kind (RSL-3).
struct highest_times {
  static constexpr size_t steps = 16;
  std::deque<std::pair<double, double>> last_ms = {};  ///< forward and backward
};

/// What comes of the job's slack (run_slack.hpp).
struct run_slack {
  /// What the pacer said last, and of the step that is made; null: the highest clocks.
  std::shared_ptr<const fbs::JobClocksT> told = {}, of_step = {};
  bool sets_clocks = false, saves_energy = false;  ///< all ranks
  std::vector<std::vector<uint32_t>> ladders = {};  ///< clocks that all ranks of a stage can have
  /// Of operations of each rank, in its last step at the highest clocks; 0: none is known.
  std::vector<double> usual_ms = {};
  std::vector<highest_times> at_highest = {};  ///< of each rank
  /// Of the step that has ended: how many times as long its clocks made each rank, and what a
  /// trial of clocks left all ranks together of their speed. RSL-3
  std::vector<double> times = {};
  uint32_t speed_of_1024 = work_pace::whole;
};

/// What the predictor is told of steps (run_times.hpp).
struct run_times {
  bool is_told = false;    ///< of one that it has not taken yet
  uint32_t after_set = 0;  ///< steps that a change of a setting sets apart still
  uint64_t dropped = 0;    ///< steps that it was not told of
  size_t next_rank = 0;    ///< with whom the next message begins
};

struct run_state {
  static inline const char* name = "run";
  spawn_record record;
  run_crew crew;
  job_policy job;
  drill_policy drills;
  std::deque<job_event> unheard;  ///< by the policy (RUN-1)
  bool handling = false;
  std::vector<fbs::LoaderReadyT> loaders;
  bool loader_told = false;  ///< since it was asked for the data (RUN-7)
  address_book addresses;
  std::map<uint64_t, written_shards> votes;  ///< by step, until the commit of it or its end
  uint32_t amendments = 0;                   ///< losses that are on their way into checkpoints
  std::vector<std::function<void()>> behind_amendments;  ///< what waits until there is none
  std::function<void()> asks_again;  ///< for a checkpoint that is read still; empty: nobody is
  int64_t asks_again_ns = 0;         ///< not before that
  bool gives_up = false;             ///< a checkpoint, before the step that its job is at
  std::map<uint64_t, asked_by> requests;
  uint64_t last_request = 0;
  job_memory remembered;                   ///< as the journal was told last
  uint64_t records = 0, records_kept = 0;  ///< that it was told, and that it has answered
  bool is_kept = true;  ///< the last record is; each time that it is not any more is said
  std::deque<kept_back> answers;
  int64_t step_started_ns = 0;
  uint64_t step_span = 0;  ///< the root of the step's causal tree
  run_power power;
  run_slack slack;
  run_times times;
};

using run_pointer = traced_pointer<run_actor, run_state>;

/// What is asked of the committer before it commits what the present ranks save.
msg<fbs::OpenFolder> folder_order(run_pointer self);

run_actor::behavior_type run(run_pointer self, spawn_record record);

}  // namespace troupe::train
