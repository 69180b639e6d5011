// The checkpoints on simulated disks as the real rules see them, and what must be among them.
//
// Pure. Starts set aside, retention gives up and `auto` chooses by the functions of io/checkpoint;
// here is only what files are there instead: names and manifests on a disk_policy for each tier.
//
// Invariants
//   SHF-1  What a person was told of stays in each tier it has come to, whole, until as many newer
//     ones of its own line are there as that tier's retention wants (SIM-12).
//   SHF-2  It has come to one at least.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/sim/disk_policy.hpp"
#include "io/checkpoint/retention.hpp"

namespace troupe::sim {

/// One tier, and what it keeps.
struct shelf {
  disk_policy disk;
  io::checkpoint::retention rules;
};

/// Complete ones and those set aside, as entries of `dir`; what is torn has no head.
std::vector<io::checkpoint::entry> catalog_of(const disk_policy& disk,
                                              const std::filesystem::path& dir = {});

/// Sets aside what a start leaves behind, durably.
void set_aside(disk_policy& disk, const io::checkpoint::origin& launch, int writer);

/// Gives what was written its name; what another launch saved under it is set aside first.
void publish_folder(disk_policy& disk, const std::string& partial, uint64_t step, int writer);

/// Removes what the rules give up for a launch that saves, but for folders in use.
void retain(shelf& tier, const io::checkpoint::origin& launch,
            const std::vector<std::string>& in_use = {});

class shelf_policy {
 public:
  /// A person was told that a launch saved a step.
  void told(const io::checkpoint::origin& launch, uint64_t step);
  /// A person takes all away that a tier holds.
  void taken_away(size_t tier);
  /// The first thing that is gone and must not be (SHF-1, SHF-2).
  std::optional<std::string> missing(std::span<const shelf* const> tiers);
  /// The newest on the way to `head` that a start from these entries can take.
  std::optional<io::checkpoint::lineage> startable(
      const io::checkpoint::lineage& head, std::span<const io::checkpoint::entry> all) const;

 private:
  struct fact {
    io::checkpoint::lineage line;
    unsigned in = 0;        ///< a bit for each tier that must have it
    bool given_up = false;  ///< by some tier's rules, or a person
  };
  std::map<std::pair<uint64_t, uint64_t>, fact> told_;  ///< by launch and step
};

}  // namespace troupe::sim
