// What must be among the checkpoints of a simulated job.
//
// Pure. It is shown what lies in each tier, as the catalog lists it.
//
// Invariants
//   KPT-1  What a person was told of stays in each tier it has come to, whole, until as many newer
//     ones of its own line are there as that tier's retention wants (SIM-12).
//   KPT-2  It has come to one at least.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/checkpoint/retention.hpp"

namespace troupe::sim {

/// What lies in one tier and would after a loss of power: complete ones and those set aside, what
/// cannot be read without a head. And what that tier keeps.
struct tier_listing {
  std::vector<io::checkpoint::catalog_entry> all;
  io::checkpoint::retention rules;
};

class kept_checkpoints {
 public:
  /// A person was told that a launch saved a step.
  void told(const io::checkpoint::origin& launch, uint64_t step);
  /// A person takes all away that a tier holds.
  void taken_away(size_t tier);
  /// The first thing that is gone and must not be (KPT-1, KPT-2).
  std::optional<std::string> missing(std::span<const tier_listing> tiers);
  /// The newest on the way to `head` that a start from these entries can take.
  std::optional<io::checkpoint::lineage> startable(
      const io::checkpoint::lineage& head,
      std::span<const io::checkpoint::catalog_entry> all) const;

 private:
  struct fact {
    io::checkpoint::lineage line;
    unsigned in = 0;        ///< a bit for each tier that must have it
    bool given_up = false;  ///< by some tier's rules, or a person
  };
  std::map<std::pair<uint64_t, uint64_t>, fact> told_;  ///< by launch and step
};

}  // namespace troupe::sim
