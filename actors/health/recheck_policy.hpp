// Who computes otherwise than its equals.
//
// Every few steps all ranks compute one layer, forward and backward, on numbers that those of a
// stage make alike (actors/train/layer_recheck.hpp), with weights that are equal to the bit. So
// what comes of it is equal, too, wherever device, instruction set and threads are. Where there are
// three replicas the odd one is outvoted. Where there are fewer, each computes twice and makes a
// product that is known: who differs from itself, or from what is known, is wrong whatever others
// say (docs/health.md, "Wrong bits").
//
// Pure.
//
// Invariants
//   RCK-1  Only replicas of one stage whose likeness is the same are held against each other. Who
//     has no equal is judged by itself alone, where it computed twice.
//   RCK-2  A rank is named where it is wrong by itself; else where more than half of its equals
//     agree on another value. Who is wrong by itself has no voice about others.
//   RCK-3  Ranks count as compared only where each was held against something.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/base/rank_grid.hpp"

namespace troupe::health {

/// What a rank tells of the layer that it computed.
struct recheck_result {
  int layer = 0;                  ///< of the whole model
  uint64_t likeness = 0;          ///< of what its bits may depend on beside the numbers
  std::vector<uint64_t> digests;  ///< of what it came to
  std::vector<uint64_t> again;    ///< the same of a second time; empty: there was none
  uint64_t known_wrong = 0;       ///< elements of a known product that are wrong
  bool operator==(const recheck_result&) const = default;
};

/// Of three replicas the odd one is known; of fewer each computes twice.
constexpr bool computes_twice(int replicas) noexcept {
  return replicas < 3;
}

/// Ranks that compute otherwise.
struct odd_products {
  std::vector<int> ranks;      ///< who is wrong; empty: nobody knows (RCK-2)
  std::vector<int> differing;  ///< all equals of the first group that differs
  int layer = 0;               ///< of that group
  bool by_itself = false;      ///< each of `ranks` is wrong by itself
  bool operator==(const odd_products&) const = default;
};

/// What was held against what.
struct recheck_verdict {
  bool compared = false;   ///< RCK-3
  std::vector<int> alone;  ///< held against nothing: without equals, and computed once
  std::optional<odd_products> odd;
};

/// `results`: of each rank; none of who was not asked.
recheck_verdict compare_rechecks(const rank_grid& grid,
                                 std::span<const std::optional<recheck_result>> results);

}  // namespace troupe::health
