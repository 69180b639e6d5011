// The run: takes all stages through start-up and steps, and says how it goes and how it ended.
//
// Start-up, each phase on all its targets at once: open the loaders; attach, build and introduce
// the stages; open and connect the data plane; load the checkpoint or the model folder. Then a step
// at a time: RunStep to all, the loss and norm from their answers, a report to the reporter;
// validation and stopping happen between steps, and so does the beginning of a checkpoint, which
// goes on beside the steps after it (run_save.hpp).
//
// Invariants
//   RUN-1  Between two steps no rank computes: what happens there sees one state of the model.
//   RUN-2  A stop asked for while a step runs takes effect after the step.
//   RUN-6  One asked for before the first step ends the run at once: there is nothing to save.
//   RUN-3  RunEnded goes to the coordinator exactly once, and nothing after it.
//   RUN-5  A pause, a save or a changed setting that a person asks for takes effect between steps,
//     and is refused at once where it cannot; its answer names the step (requests_policy.hpp).
//   RUN-4  A step whose loss is not finite ends the run; the last checkpoint stays.
//
// Failure policy: a failed save is a warning, except the last one; any other failure ends the run.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/checkpoint/catalog.hpp"
#include "actors/checkpoint/last_save_policy.hpp"
#include "actors/checkpoint/pace_policy.hpp"
#include "actors/train/device_policy.hpp"
#include "actors/train/plan.hpp"
#include "actors/train/requests_policy.hpp"
#include "messages/actors.hpp"

namespace troupe::train {

/// A host's loader and the ranks it serves.
struct host_loader {
  loader_actor loader;
  std::vector<uint32_t> ranks;
};

/// Everything a run needs; made by the coordinator once the nodes have their ranks.
struct run_options {
  job_plan plan;
  uint32_t epoch = 1;
  std::vector<stage_actor> stages;  ///< by rank
  std::vector<std::string> hosts;   ///< by rank: the address its groups listen on
  std::vector<int> threads;         ///< by rank
  device_choice devices;            ///< by rank
  std::vector<host_loader> loaders;
  std::optional<checkpoint::entry> resume;
  archive_actor archive;
  carrier_actor carrier;  ///< none without a second tier
  reporter_actor reporter;
  coordinator_actor coordinator;
};

struct run_state {
  static inline const char* name = "run";
  run_options options;
  std::string config_toml;
  gpu::lr_schedule lr;
  uint64_t step = 0;  ///< last finished
  uint64_t tokens = 0;
  double loss = 0;
  int64_t step_started_ns = 0;
  std::vector<fbs::LoaderReadyT> loaders;
  std::optional<std::string> stop_reason;
  bool stop_saves = true;
  bool begun = false;  ///< the start is over: steps are made
  bool finishing = false;  ///< no further step is made
  bool ended = false;
  bool has_validation = false;
  std::string archive_folder;  ///< absolute
  uint64_t saved_step = 0;
  std::string checkpoint;
  std::string model;            ///< the exported folder
  double validation_loss = -1;  ///< after the last step; negative: not measured
  checkpoint::pace_policy pace;
  std::function<void()> waits_for_room, waits_for_all, waits_for_copies, waits_to_retry;
  std::optional<checkpoint::last_save_policy> last_save;  ///< once no more steps are made
  int64_t waits_since_ns = 0;
  std::optional<error> save_failure;  ///< of the latest that failed
  uint64_t checkpoints = 0, checkpoint_bytes = 0;
  double checkpoint_wait_ms = 0;  ///< of the whole run
  double step_wait_ms = 0;        ///< of it, before the current step
  requests_policy requests;       ///< of persons
  bool waiting = false;           ///< paused between two steps
  bool save_wanted = false;       ///< a person asked for a checkpoint
  uint64_t save_point = 1;        ///< the step after which it is decided next whether to save
  uint64_t step_span = 0;         ///< the root of the step's causal tree
};

run_actor::behavior_type run(traced_pointer<run_actor, run_state> self, run_options options);

}  // namespace troupe::train
