// What a job that swaps takes of its drives, and what it can lose there, for `troupe plan`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/job/plan.hpp"
#include "actors/train/swap_folder.hpp"

namespace troupe::apps::swap {

/// What it would take to have a checkpoint before the last step's: the drive's files, one
/// checkpoint that is kept and the one that follows it, the model at the end.
struct earlier_checkpoint {
  uint64_t needed_bytes = 0;
  bool fits = false;
};

/// None where the job makes such a checkpoint, has but one step, or its drives cannot be looked at.
std::optional<earlier_checkpoint> earlier_checkpoint_of(const train::job_plan& plan);

/// A line a drive, and that a kill costs the run where that is so.
std::string drives_text(const config::job& job, const std::vector<train::swap_room>& rooms,
                        const std::optional<earlier_checkpoint>& earlier);

/// The same as numbers, into the object of `swap`.
void add_drives(nlohmann::ordered_json& to, const std::vector<train::swap_room>& rooms,
                const std::optional<earlier_checkpoint>& earlier);

}  // namespace troupe::apps::swap
