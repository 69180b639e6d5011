// Where a checkpoint's bytes are read from: a folder by plain reads, or whatever else can read at
// an offset (an io_uring engine, a peer's memory, a test's damaged copy).
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "io/base/result.hpp"
#include "io/disk/file_system.hpp"

namespace troupe::io::checkpoint {

/// The files of one checkpoint, by name. May be called by several threads at once.
class file_source {
 public:
  virtual ~file_source() = default;
  /// Errors: not_found, permission, io; bad_data for what is no regular file.
  virtual result<std::shared_ptr<const source_file>> open(const std::string& name) const = 0;
  /// How many threads it is quickest with; 0: as is usual (parallel.hpp).
  virtual unsigned reads_at_once() const { return 0; }
};

/// The files of a folder; by pread, long aligned reads past the page cache, where it is the
/// machine's. `files` outlives it.
std::shared_ptr<const file_source> folder_source(file_system& files, std::filesystem::path folder,
                                                 pages behind = pages::keep);

}  // namespace troupe::io::checkpoint
