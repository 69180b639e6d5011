// The storage of a host: its names and small files, and disks to move bytes by. An edge of the
// program: the machine's, or one in memory that fails and loses what was not synced.
#pragma once

#include <memory>

#include "io/disk/disk.hpp"

namespace troupe::io {

class storage {
 public:
  virtual ~storage() = default;
  /// For names and small files. Lives as long as the storage.
  virtual file_system& files() = 0;
  /// Errors: bad_config, unavailable.
  virtual result<std::unique_ptr<disk>> open_disk(const disk_options& options) = 0;
};

/// The machine's.
storage& local_storage();

/// Makes a folder, with the parents it lacks, whose name survives a power cut, and so do theirs.
/// Errors: permission; io, also where a name on the way is a file's.
status make_folders(file_system& files, const std::filesystem::path& folder);

}  // namespace troupe::io
