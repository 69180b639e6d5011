// The checkpoints on a simulated disk as the real rules see them, and what must be among them.
//
// Pure. Starts set aside, retention gives up and `auto` chooses by the functions of io/checkpoint;
// here is only what files are there instead: names and manifests on a disk_policy.
//
// Invariants
//   SHF-1  What a person was told of is on the disk, whole, or as many newer ones of its own line
//     as retention wants are (SIM-12).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/sim/disk_policy.hpp"
#include "io/checkpoint/retention.hpp"

namespace troupe::sim {

/// Complete ones and those set aside; what is torn has no head.
std::vector<io::checkpoint::entry> catalog_of(const disk_policy& disk);

/// Sets aside what a start leaves behind, durably.
void set_aside(disk_policy& disk, const io::checkpoint::origin& launch, int writer);

/// Removes what the rules give up for a launch that saves.
void retain(disk_policy& disk, const io::checkpoint::origin& launch,
            const io::checkpoint::retention& rules);

class shelf_policy {
 public:
  /// A person was told that a launch saved a step.
  void told(const io::checkpoint::origin& launch, uint64_t step);
  /// The first thing that is gone and must not be (SHF-1).
  std::optional<std::string> missing(const disk_policy& disk,
                                     const io::checkpoint::retention& rules) const;

 private:
  std::map<std::pair<uint64_t, uint64_t>, io::checkpoint::lineage> told_;  ///< by launch and step
};

}  // namespace troupe::sim
