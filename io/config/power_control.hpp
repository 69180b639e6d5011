// What may make devices slower for a pace, as a list of words: power.control of a job, and
// --control of a machine's agent. Each device is held by the first word of the list that is for
// such devices and that its machine offers; the others stand in where that one is not offered.
// Never by two at once: what is drawn judges one setting, and a device has one governor.
//
// Why the order matters: under a limit of watts each device finds a clock of its own, and in a job
// the others wait for the slowest. So a clock goes before a limit.
//
// Pure.
//
// Invariants
//   PCT-1  What is taken names nothing twice, nothing behind "pace", which every device takes, and
//     no limit before the clock of the same devices.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::config {

/// The word that holds back operations, on any device and without rights.
inline constexpr std::string_view control_by_pauses = "pace";
/// Of a job.
inline constexpr std::array<std::string_view, 6> job_control_words{
    control_by_pauses, "cgroup", "cpufreq", "rapl", "nvml_clocks", "nvml_limit"};
/// Of a machine whose work is others'.
inline constexpr std::array<std::string_view, 4> agent_control_words{"cpufreq", "rapl",
                                                                     "nvml_clocks", "nvml_limit"};

/// Why a list is refused, and what to write.
struct control_fault {
  std::string what, hint;
};
/// PCT-1. None: it may be taken; also an empty one. `known`: the words that it may have.
std::optional<control_fault> fault_of_control(std::span<const std::string> words,
                                              std::span<const std::string_view> known);

}  // namespace troupe::config
