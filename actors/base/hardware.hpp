// What this machine and this process are: for the handshake and the heartbeats.
#pragma once

#include <string>

#include "messages/schemas/cluster_generated.h"

namespace troupe::cluster {

/// Host name, boot id, processor, cores this process may use, memory, a fresh instance id.
fbs::HardwareFactsT hardware_facts();

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
