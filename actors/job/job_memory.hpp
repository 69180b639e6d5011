// What the next head must know of a job beyond its newest checkpoint: what persons have said and
// that still holds. Kept in the journal (actors/train/journal.hpp).
#pragma once

#include <string>
#include <vector>

#include "actors/job/train_state.hpp"
#include "messages/schemas/train_generated.h"

namespace troupe::train {

struct job_memory {
  bool paused = false;
  std::string pause_reason = {};
  /// Settings in the order of their steps: those that a checkpoint has, too, for the next head may
  /// have to begin with an older one.
  std::vector<checkpoint::setting_change> settings = {};
  bool operator==(const job_memory&) const = default;
};

fbs::JobMemoryT to_message(const job_memory& memory);
job_memory memory_in(const fbs::JobMemoryT& m);

}  // namespace troupe::train
