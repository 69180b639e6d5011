// What this machine and this process are: for the handshake and the heartbeats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "messages/schemas/cluster_generated.h"

namespace troupe::cluster {

/// The least limit of memory that a process's control groups have, bytes; 0: none. `groups` is its
/// /proc/PID/cgroup, `mount` where control groups are mounted (either version).
uint64_t control_group_limit(const std::filesystem::path& groups,
                             const std::filesystem::path& mount);

/// Of the machine, bytes, whatever a process may have of it.
uint64_t physical_memory();

/// Host name, boot id, processor, a fresh instance id; of cores and memory what this process may
/// use: who takes more memory than its control group has is killed. Of GPUs the version of the
/// driver, as its module says it in `driver`, and their UUIDs, in folders beside that; the devices
/// are the caller's to name. Other paths: of control_group_limit.
fbs::HardwareFactsT hardware_facts(
    const std::filesystem::path& groups = "/proc/self/cgroup",
    const std::filesystem::path& mount = "/sys/fs/cgroup",
    const std::filesystem::path& driver = "/proc/driver/nvidia/version");

/// The machine by its boot, which containers on it share; by its host's name where no boot is
/// known. Empty: nothing is.
inline const std::string& machine_of(const fbs::HardwareFactsT& facts) {
  return facts.boot_id.empty() ? facts.hostname : facts.boot_id;
}

/// Resident memory, bytes, and processor time, seconds, of this process.
struct process_usage {
  uint64_t rss_bytes = 0;
  double cpu_seconds = 0;
};
process_usage usage_now();

/// The most resident memory this process has had, bytes.
uint64_t peak_memory();

/// The hash of this build's message schemas and the program's version.
uint64_t own_schema_hash();
std::string own_version();

}  // namespace troupe::cluster
