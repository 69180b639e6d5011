// Who holds other weights than its replicas.
//
// Replicas compute with weights that are equal to the bit, each from its own memory, so what a
// memory, a wire or a device changed in one of them shows. How it is told apart from what a whole
// job computes: no job does, but by a fault (docs/health.md, "Wrong bits").
//
// Pure.
//
// Invariants
//   DGS-1  Only replicas of one stage are compared. A rank that told nothing, or of other chunks,
//     is not judged, and no other is by it.
//   DGS-2  A rank is named only where more than half of its replicas agree on another value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/base/rank_grid.hpp"

namespace troupe::health {

/// Replicas that differ.
struct odd_replicas {
  std::vector<int> ranks;      ///< who is wrong; empty: nobody knows (DGS-2)
  std::vector<int> differing;  ///< all replicas of the first stage that differs
  int chunk = 0;               ///< the first that differs, of that stage
  bool operator==(const odd_replicas&) const = default;
};

/// What was compared: whether there was anything, and who differs.
struct digest_verdict {
  bool compared = false;  ///< every rank with all of its replicas
  std::optional<odd_replicas> odd;
};

/// `digests`: of each rank, by chunk.
digest_verdict compare_digests(const rank_grid& grid,
                               std::span<const std::vector<uint64_t>> digests);

}  // namespace troupe::health
