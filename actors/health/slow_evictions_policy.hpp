// Whether a spare may take the place of a node that is slow (recovery.evict_slow).
//
// Why so careful: a slow node makes steps, one that is taken out makes none for a while, and the
// budgets of recovery are there for what has died. Slowness must never be what a job ends over.
//
// Pure.
//
// Invariants
//   SEV-1  Nobody is taken out unless recovery.evict_slow says so and a spare is there.
//   SEV-2  At most `most_per_hour` within an hour, and never the last recovery that
//     recovery.most_per_hour allows, nor more than the rules for stragglers do: where a budget is
//     used up a job ends.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/config/job.hpp"

namespace troupe::health {

/// A recovery that has begun.
struct past_recovery {
  std::string finding;  ///< its stable name
  double ago_s = 0;
};

class slow_evictions_policy {
 public:
  static constexpr int64_t most_per_hour = 2;

  static bool allows(const config::recovery_section& rules, uint64_t spares,
                     std::span<const past_recovery> past);
};

}  // namespace troupe::health
