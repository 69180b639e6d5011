// Where a checkpoint's bytes are read from: a folder by plain reads, or whatever else can read at
// an offset (an io_uring engine, a peer's memory, a test's damaged copy).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "io/base/result.hpp"

namespace troupe::io::checkpoint {

/// One open file. All functions may be called by several threads at once.
class source_file {
 public:
  virtual ~source_file() = default;
  /// Its length when it was opened, in bytes.
  virtual uint64_t size() const noexcept = 0;
  /// Fills `out` from `offset` on. Errors: io; bad_data where the file ends before. Quickest where
  /// offset and address are multiples of 4096 (disk_block).
  virtual status read_at(uint64_t offset, std::span<std::byte> out) const = 0;
};

/// The files of one checkpoint, by name. May be called by several threads at once.
class file_source {
 public:
  virtual ~file_source() = default;
  /// Errors: not_found, permission, io; bad_data for what is no regular file.
  virtual result<std::shared_ptr<const source_file>> open(const std::string& name) const = 0;
};

/// What becomes of the page cache behind a read.
enum class pages : uint8_t {
  keep,
  drop,  ///< for bytes that nobody reads again soon: the cache is left to whoever needs it
};

/// The files of a folder, by pread: long aligned reads past the page cache.
std::shared_ptr<const file_source> folder_source(std::filesystem::path folder,
                                                 pages behind = pages::keep);

}  // namespace troupe::io::checkpoint
