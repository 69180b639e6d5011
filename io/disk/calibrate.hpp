// How large a chunk and how many at once the disk under a folder likes best: measured in about a
// second, kept among the facts of the machine, and measured again when what is kept is old, damaged
// or of another disk.
//
// Invariants
//   CA-1  A kept result is used only if it is of this program (FACT-1), this device (number, file
//         system type, size), not older than max_age, and every number in it is possible; else it
//         is as absent.
//   CA-2  What the measurement writes is removed, also after an error; at most budget_bytes are
//         written, of each try a third while as much is read.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/disk/disk.hpp"
#include "io/machine/facts.hpp"

namespace troupe::io {

/// One way to use a disk, and how fast it was.
struct disk_rate {
  size_t chunk_bytes = 0;
  size_t depth = 0;
  double write_bytes_s = 0;  ///< fdatasync included
  double read_bytes_s = 0;
  /// What reads and writes at once save of the shorter one's time, 0 to 1: nothing, or all of it.
  double duplex = 0;
};

struct calibration {
  std::string device;            ///< "254:0 ef53 264242192384": number, file system type, bytes
  std::string backend;           ///< of the disk it was measured through
  disk_rate best;                ///< the smallest chunk and depth within 5 % of the fastest write
  std::vector<disk_rate> tried;  ///< empty when it was kept, not measured
};

struct calibrate_options {
  disk_backend backend = disk_backend::automatic;
  /// What to try, the likeliest first; empty: 4 MiB x 8, 8 MiB x 8, 4 MiB x 4, 8 MiB x 4.
  std::vector<std::pair<size_t, size_t>> chunk_and_depth = {};
  uint64_t budget_bytes = uint64_t{256} << 20;  ///< written in all, shared by the tries
  std::chrono::milliseconds budget{1000};       ///< no further try begins after it
  std::chrono::hours max_age{24 * 30};
  fact_store store = {};  ///< where results are kept; nowhere: it is measured each time
};

/// Measures in `folder`, which must exist. Errors: not_found, permission, io (ENOSPC ...).
result<calibration> measure_disk(const std::filesystem::path& folder,
                                 const calibrate_options& options);

/// The kept result for the disk under `folder`, if there is one to be trusted (CA-1).
std::optional<calibration> kept_calibration(const std::filesystem::path& folder,
                                            const calibrate_options& options);

/// The kept result, or a new one, which is kept.
result<calibration> calibrate(const std::filesystem::path& folder,
                              const calibrate_options& options);

}  // namespace troupe::io
