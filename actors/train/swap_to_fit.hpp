// How a job that does not fit into memory would by swapping: the settings that make it, and what
// they ask of the drive.
//
// A function of the plan and of the room that the drive has now, where it is this machine's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/job/plan.hpp"
#include "actors/train/swap_folder.hpp"

namespace troupe::train {

struct swap_to_fit {
  job_plan plan;                      ///< the job with these settings
  std::vector<std::string> settings;  ///< "swap.dir=run/swap", "swap.host_bytes=1073741824"
  uint64_t floor_bytes = 0;           ///< the least swap.host_bytes
  uint64_t disk_bytes = 0;            ///< of what lives on the drive
  std::vector<swap_room> rooms = {};  ///< on each drive; none where it is no drive of this machine

  bool has_room() const;
};

/// Of a job whose processes may have `limit_bytes` each: 80 % of them, or the least that it can be
/// trained with where that is more. A swap folder that the job names stays. None: it needs more, or
/// asks for what cannot be had with swapping (copies in memory, measured layers), or computes on
/// GPUs.
std::optional<swap_to_fit> swapping_to_fit(const job_plan& plan, uint64_t limit_bytes);

/// "--set swap.dir=run/swap --set swap.host_bytes=1073741824".
std::string settings_text(const swap_to_fit& way);

/// The same, and what of the job then lives on the drive.
std::string swap_to_fit_text(const swap_to_fit& way);

}  // namespace troupe::train
