// Control groups that bound the processor time of some threads: which files, with which texts.
//
// Why threads: a rank's actors and streams share its process. Held to a quota are the threads that
// compute alone, so that messages, heartbeats and transfers stay prompt. Version 2 has threaded
// groups for it (cgroup.type); under version 1 each thread is in a group by itself (tasks).
//
// Pure.
//
// Invariants
//   CGP-1  A quota is 1 ms of each period at least, which is the least that the kernel takes; at
//     full speed there is none.
//   CGP-2  Whatever the kernel's text says, the group is the mount or below it.
//   CGP-3  No quota is above what a group above it allows, which version 1 refuses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/controls/actuator.hpp"

namespace troupe::gpu::controls {

enum class cgroup_version : uint8_t { one = 1, two = 2 };

/// The group of a process, in the hierarchy that has the cpu controller.
struct cgroup_place {
  cgroup_version version = cgroup_version::two;
  std::filesystem::path root;   ///< where that hierarchy is mounted
  std::filesystem::path group;  ///< the process's own: below it, or the same
  bool operator==(const cgroup_place&) const = default;
};

/// By /proc/PID/cgroup and where control groups are mounted. Version 1 where that has the cpu
/// controller, for then version 2 has not. None: it is in no group that may have it.
std::optional<cgroup_place> cpu_place(std::string_view groups, const std::filesystem::path& mount);

/// Whether a list of the kernel's, as of cgroup.controllers, has a name.
bool lists(std::string_view text, std::string_view name);

/// What a quota is of.
inline constexpr int64_t quota_period_us = 100'000;
/// CGP-1
inline constexpr int64_t least_quota_us = 1'000;

/// Microseconds of each period that so many threads may compute together at a pace; none: all.
std::optional<int64_t> quota_us(int pace_of_1024, int threads);

/// What a group of version 1 allows in each quota_period_us, by its files of quota and period;
/// none: it has no limit, or none is read.
std::optional<int64_t> allowed_us(std::string_view quota, std::string_view period);
/// CGP-3. None as well where less than the least quota is allowed: the group above holds to that.
std::optional<int64_t> quota_within(std::optional<int64_t> quota, std::optional<int64_t> allowed);

/// The file of a quota, and what is written into it.
std::string_view quota_file(cgroup_version version);
std::string quota_text(cgroup_version version, std::optional<int64_t> quota);
/// The file that takes the number of a thread.
std::string_view threads_file(cgroup_version version);

/// Names of groups that this program makes begin so.
inline constexpr std::string_view group_prefix = "troupe-";
std::string group_name(int64_t pid, uint64_t number);

/// Of a quota of so many threads.
actuator_facts quota_facts(int threads);

}  // namespace troupe::gpu::controls
