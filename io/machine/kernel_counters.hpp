// What Linux's files under /proc and /sys/fs/cgroup count, from their text: how long processes
// waited, how much memory is left, how many packets were broken.
//
// Pure: text in, numbers out; who reads the files is elsewhere. The text is foreign: a kernel may
// leave a line out, and a container may put anything there. What is not said is absent, never 0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::io {

/// Of /proc/pressure/*: the share of the last 10 s in which some process waited, and in which all
/// of them did, in percent; and for how long some did since the start of the machine.
struct pressure {
  std::optional<double> some_percent, full_percent;
  std::optional<uint64_t> some_us = {};
};
pressure parse_pressure(std::string_view text);

/// Of /proc/stat's first line, in the kernel's ticks: processor time of all processors, what of it
/// the host of a virtual machine gave to others, and what nobody used.
struct cpu_ticks {
  uint64_t all = 0, stolen = 0, idle = 0;
};
std::optional<cpu_ticks> parse_cpu_ticks(std::string_view text);

/// Of /proc/PID/stat, in the kernel's ticks: processor time of all threads of a process, and of its
/// children that ended and that it waited for.
struct process_ticks {
  uint64_t parent = 0;  ///< its number
  uint64_t busy = 0;
};
std::optional<process_ticks> parse_process_ticks(std::string_view text);

/// Of /proc/meminfo, in bytes.
struct memory_left {
  std::optional<uint64_t> total, available;
};
memory_left parse_memory(std::string_view text);

/// Of /proc/net/dev: packets with errors, received and sent, of all interfaces but loopback.
std::optional<uint64_t> parse_packet_errors(std::string_view text);

/// Of a control group's cpu.stat: microseconds in which it had used up its processor time.
std::optional<uint64_t> parse_throttled_us(std::string_view text);

/// Of /proc/self/cgroup: the path of the unified hierarchy (version 2), e.g. "/job.slice". Its own
/// string: callers hand in what they have just read, and keep the path alone.
std::optional<std::string> parse_unified_cgroup(std::string_view text);

/// Of a control group's cpu.max: how many processors' time it may use; nothing: it has no limit.
std::optional<double> parse_cpu_quota(std::string_view text);

/// The same of version 1, of cpu.cfs_quota_us and cpu.cfs_period_us: "-1" is none.
std::optional<double> parse_cpu_quota(std::string_view quota_us, std::string_view period_us);

/// The least of a process's group and those above it, in the unified hierarchy and in that of
/// version 1's cpu controller: a kernel may have both, and only one of them has that controller.
/// `groups`: of /proc/PID/cgroup. `text_of`: of a file, by its path below /sys/fs/cgroup; empty:
/// there is none. Version 1's hierarchy is mounted there at "cpu", or by its controllers' names.
std::optional<double> least_cpu_quota(
    std::string_view groups,
    const std::function<std::string(const std::filesystem::path&)>& text_of);

/// Of /proc/cpuinfo, where the kernel says clocks there: the middle one of its processors', MHz.
std::optional<double> parse_cpu_mhz(std::string_view text);

/// Of a processor's cpufreq/scaling_cur_freq: MHz.
std::optional<double> parse_scaling_mhz(std::string_view text);

}  // namespace troupe::io
