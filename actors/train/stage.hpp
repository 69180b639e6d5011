// The stage: one rank's way through the steps. Thin: the schedule decides (schedule_policy.hpp),
// the worker computes; the stage carries decisions to the worker, completions to the neighbours,
// and answers the run.
//
// Messages: RunStep, Validate or Brake from the run; BatchRequest to the loader; RunOp and
// FinishStep to the worker; ActivationReady to and from the neighbours; Notice from the worker, to
// the run whose pass it is.
//
// Invariants
//   STG-1  One pass (a step, or the batches of a validation) at a time; another request meanwhile
//     is refused.
//   STG-2  Announcements of a neighbour that is one pass ahead are kept, at most early_limit of
//     them; all others that do not fit the pass are counted and dropped.
//   STG-3  The next batch is asked for when no operation that reads the last one is outstanding:
//     asking tells the loader that its slot is free (LDR-2).
//   STG-4  The first failure ends the pass: the run gets it as the answer. What was asked for the
//     pass and is answered later is dropped.
//   STG-5  Below full speed an operation waits until the pace lets it begin (op_gate.hpp); the pace
//     is one for all of a pass.
//   STG-6  While the brake is on none begins (PWR-4), in this pass and the next ones. Whoever waits
//     for one of them meanwhile, here or on another rank, waits longer (paced_patience.hpp).
//   STG-7  For how long an operation was held back, by the pace, the brake or a late start (OPG-7),
//     is recorded as work of the stage once that is over.
//
// Failure policy: escalate to the run.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/job/spawn_record.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/op_gate.hpp"
#include "actors/train/schedule_policy.hpp"
#include "messages/actors.hpp"
#include "messages/receive.hpp"

namespace troupe::train {

/// A pass under way. Not within stage_state: there clang 14 does not see in time that it can be
/// made of nothing, and std::optional asks.
struct stage_pass {
  bool train = true;
  uint64_t step = 0;   ///< of the run; the answer's
  uint64_t batch = 0;  ///< the step, or the number of the validation batch, from 1
  uint64_t last_batch = 0;
  double lr = 0;
  bool digest = false;  ///< of the weights, wanted
  bool recheck = false;  ///< of a layer, wanted
  std::shared_ptr<const fbs::StageClocksT> clocks = {};  ///< of its operations; null: the highest
  int32_t batch_slot = -1;
  int outstanding = 0;      ///< operations given to the worker and not done
  bool batch_over = false;  ///< all of the batch's operations are given, another batch follows
  message_header cause;
  std::optional<step_policy> policy;
  caf::typed_response_promise<msg<fbs::StepDone>> step_done;
  caf::typed_response_promise<msg<fbs::ValidationDone>> validation_done;
};

struct stage_state {
  static inline const char* name = "stage";
  static constexpr size_t early_limit = 1024;

  grid_rank at;
  schedule_of schedule;
  bool documents = false;  ///< a row may hold several
  bool may_brake = false;  ///< a power budget above its job
  worker_actor worker;
  loader_actor loader;
  stage_actor previous, next;
  std::optional<stage_pass> now;
  run_actor run;        ///< that has ordered the last pass
  uint64_t passes = 0;  ///< begun; the last one is `now`'s
  std::vector<msg<fbs::ActivationReady>> early;
  uint64_t steps_done = 0;
  uint64_t last_step = 0;  ///< of training; 0: none is done
  int previous_rank = -1, next_rank = -1;
  uint64_t neighbour_wait = 0;  ///< in the stats
  op_gate gate;
  uint64_t computed_us = 0;  ///< as the worker said last
  uint64_t gate_wait = 0;    ///< in the stats
  int64_t held_ns = 0;       ///< as the registry knows it
  std::optional<int64_t> hold_begun_ns;  ///< that a record is to tell: the gate holds an operation
  bool holds_start = false;              ///< the first one of the pass, so that it starts late
};

/// The stage of the record's rank; it drives the record's worker.
stage_actor::behavior_type stage(traced_pointer<stage_actor, stage_state> self,
                                 const spawn_record& record);

}  // namespace troupe::train
