// What dead processes have left changed on this machine, taken back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "gpu/controls/control_record.hpp"
#include "gpu/controls/groups.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu::controls {

/// Of whose changes.
enum class left_by : uint8_t {
  anybody,
  jobs,  ///< not what stays for the next one that holds the machine (CRE-3)
};

/// A record that was found, and what became of it.
struct restored {
  std::filesystem::path file;
  std::optional<control_record> record;  ///< none: it is none
  record_verdict verdict = record_verdict::in_use;
  status outcome;  ///< of what was done; in a trial run success
};

/// Undoes what records of dead processes say (CTQ-3, SGV-2); of others than `whose` none is looked
/// at, but for what a reboot has made void. `trial`: says only what it would do.
/// Those of groups first, in the order of their names; of settings, those that this user may see.
/// Errors: io, where a folder cannot be read.
result<std::vector<restored>> restore(const control_place& at, bool trial,
                                      left_by whose = left_by::anybody);

}  // namespace troupe::gpu::controls
