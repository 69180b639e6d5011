// Which faults befall a simulated cluster, and when: drawn from a seed.
//
// Pure. A fault that lasts has an end; everything heals at last but what has died.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/sim/rng.hpp"

namespace troupe::sim {

enum class fault_kind : uint8_t {
  crash_node,       ///< the process of a node is killed
  lose_node,        ///< the host of a node is gone without a word
  freeze_node,      ///< the process of a node stops for a while
  crash_head,       ///< the coordinator's process is killed
  partition,        ///< some nodes are cut off for a while
  loss,             ///< some messages between nodes vanish for a while
  slow_device,      ///< a device is slower for a while
  hang_device,      ///< a device never answers again
  fail_device,      ///< a device reports one failure
  kill_actor,       ///< a person kills an actor, any one
  pause_run,        ///< a person pauses the run for a while
  save_now,         ///< a person asks for a checkpoint
  stop_run,         ///< a person stops the run
  set_value,        ///< a person changes a setting
  drain_node,       ///< a person takes a node out
  old_message,      ///< a message of an epoch that has ended comes late
  tier_out,         ///< a folder of checkpoints is full, or gone, for a while
  second_launcher,  ///< a person starts the job once more while it runs
  foreign_folder,   ///< a person puts something where the model goes
  freeze_head,      ///< the process of a head stops for a while
  head_cut,         ///< a head is cut off from all, the other heads or the nodes for a while
  slow_disk,        ///< the drive of a node is slower for a while
  disk_error,       ///< the drive of a node fails one read or write
  full_disk,        ///< the drive of a node is full for a while
  meter_silent,     ///< the meters of a node say nothing for a while
  budget_cut,       ///< a person sets another power budget, no greater than the job's
  lose_governor,    ///< the power budget's process dies; another life begins a while later
  freeze_governor,  ///< the process of the power budget stops for a while
  lose_grant,       ///< an answer of the power budget is lost
  late_grant,       ///< an answer of the power budget comes late
  actuator_lies,    ///< the job's neighbour under the power budget, or a device of the job, draws
                    ///< above its cap for a while; of a job that takes slack alone a device takes
                    ///< no clock, or runs at its lowest and says that it does not
  actuator_late,    ///< what that neighbour, or device, sets comes into force when this is over; of
                    ///< a job that takes slack alone a device's clocks come later meanwhile
  power_brake,      ///< a person holds all work under the power budget for a while
  slow_section,     ///< one section of a node's steps takes longer for a while
  slow_all,         ///< all nodes are slower for a while
  decay,            ///< a node gets slower and slower for a while
  spikes,           ///< one step in a hundred takes a node half as long again, for a while
};
inline constexpr int fault_kinds = 37;

/// Whether only a job with several heads knows it.
inline bool is_of_heads(fault_kind kind) {
  return kind == fault_kind::freeze_head || kind == fault_kind::head_cut;
}
/// Whether only a job that swaps knows it.
inline bool is_of_drives(fault_kind kind) {
  return kind >= fault_kind::slow_disk && kind <= fault_kind::full_disk;
}
/// Whether only a job with a power budget knows it.
inline bool is_of_power(fault_kind kind) {
  return kind >= fault_kind::meter_silent && kind <= fault_kind::power_brake;
}
/// Of these, whether only a job with a power budget above it knows it.
inline bool is_of_parent(fault_kind kind) {
  return kind >= fault_kind::lose_governor && kind <= fault_kind::power_brake;
}
/// Whether a job that takes slack knows it, too: what sets the clocks of its devices.
inline bool is_of_clocks(fault_kind kind) {
  return kind == fault_kind::actuator_lies || kind == fault_kind::actuator_late;
}
/// Whether it makes machines slow (pace_model.hpp). Drawn apart, as those of folders are.
inline bool is_of_pace(fault_kind kind) {
  return kind >= fault_kind::slow_section;
}
/// Whether it befalls the job's folders. Drawn apart: what else a seed means depends on none.
inline bool is_of_folders(fault_kind kind) {
  return kind >= fault_kind::tier_out && kind <= fault_kind::foreign_folder;
}

/// The stable name of a kind, as `troupe sim --faults` takes it.
const char* to_string(fault_kind kind);
/// All that befall a job with one head.
std::vector<fault_kind> all_faults();
/// These, and those of its drives.
std::vector<fault_kind> all_swap_faults();
/// The same of one with a power budget.
std::vector<fault_kind> all_power_faults();
/// The same of one with a power budget above it.
std::vector<fault_kind> all_parent_faults();
/// The same of one that takes slack.
std::vector<fault_kind> all_slack_faults();
/// All that befall one with several.
std::vector<fault_kind> all_head_faults();

struct fault {
  fault_kind kind{};
  int64_t at_ns = 0;
  int64_t lasts_ns = 0;  ///< of those that last
  uint64_t random = 0;   ///< chooses the victim
  /// By name: a node, rank, actor or tier, or a section as node0/backward; empty: by chance.
  std::string whom = {};
};

/// `count` faults of the given kinds within [0, span_ns), in the order of their times.
std::vector<fault> draw_faults(rng& random, const std::vector<fault_kind>& kinds, int count,
                               int64_t span_ns);

}  // namespace troupe::sim
