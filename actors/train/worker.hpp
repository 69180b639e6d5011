// The worker: one rank's device as an actor. Thin: messages become calls of its engine, completions
// become answers.
//
// Failure policy: a failed operation is answered with its error; the rank is of no more use (ENG-5)
// and the run decides. The worker itself does not restart.
#pragma once

#include <memory>

#include "actors/base/completion_queue.hpp"
#include "actors/base/traced.hpp"
#include "actors/job/spawn_record.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/probe.hpp"
#include "messages/actors.hpp"
#include "messages/receive.hpp"

namespace troupe::train {

/// Copies in memory of which a worker tells the run.
inline constexpr size_t most_copies_told = 4096;

struct worker_state {
  static inline const char* name = "worker";

  int rank = -1;
  std::shared_ptr<engine_maker> engines;
  std::shared_ptr<completion_queue> done;
  engine_options options;  ///< of the engine
  uint64_t builds = 0;     ///< begun; the last one is the engine's
  bool built = false;
  int64_t batch_slots = 0;             ///< of the loader; 0: none is attached
  swapper_actor swapper;               ///< none where all is in memory
  stage_actor stage;                   ///< that has it built
  std::unique_ptr<stats_probe> probe;  ///< outlives the engine
  std::unique_ptr<train::engine> engine;

  ~worker_state();
};

/// The worker of `rank` in the given epoch, without an engine yet; BuildStage gives it one.
worker_actor::behavior_type worker(traced_pointer<worker_actor, worker_state> self,
                                   const spawn_record& record,
                                   std::shared_ptr<engine_maker> engines);

}  // namespace troupe::train
