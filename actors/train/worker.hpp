// The worker: one rank's device as an actor. Thin: messages become calls of the rank_engine,
// completions of its streams become answers.
//
// Failure policy: a failed operation is answered with its error; the rank is of no more use (ENG-5)
// and the run decides. The worker itself does not restart.
#pragma once

#include <memory>
#include <optional>

#include "actors/base/inbox.hpp"
#include "actors/base/traced.hpp"
#include "actors/train/batch_memory.hpp"
#include "actors/train/probe.hpp"
#include "actors/train/rank_engine.hpp"
#include "messages/actors.hpp"
#include "messages/receive.hpp"

namespace troupe::train {

struct worker_state {
  static inline const char* name = "worker";

  epoch_gate epoch;
  int rank = -1;
  std::shared_ptr<inbox> done;
  std::unique_ptr<card_probe> probe;  ///< outlives the engine
  std::optional<batch_memory> batches;  ///< the same
  std::unique_ptr<rank_engine> engine;

  ~worker_state();
};

/// The worker of `rank` in the given epoch, without a device yet; BuildStage gives it one.
worker_actor::behavior_type worker(traced_pointer<worker_actor, worker_state> self, uint32_t epoch,
                                   uint32_t rank);

}  // namespace troupe::train
