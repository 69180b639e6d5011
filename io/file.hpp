// Files: descriptors that close themselves, whole-file reads with a limit, read-only maps, atomic
// replacement, and the CRC32C that every checkpoint byte is checked by.
//
// Invariants:
// FILE-1 A reader sees either the whole old file or the whole new one: content goes to a temporary
//        name in the same folder, is fsynced, renamed over the target, and the folder is fsynced.
// FILE-2 An atomic_file that was not committed leaves nothing behind but the old file.
// FILE-3 No length taken from outside is trusted: reads stop at the limit given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/base/result.hpp"

namespace troupe::io {

/// Owns one file descriptor; closes it. -1 = none.
class unique_fd {
 public:
  unique_fd() = default;
  explicit unique_fd(int fd) noexcept : fd_(fd) {}
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~unique_fd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset(int fd = -1) noexcept;
  /// The descriptor, from now on the caller's to close.
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// Opens a regular file for reading. Errors: not_found, permission, io; bad_data for a folder.
result<unique_fd> open_read(const std::filesystem::path& path);

/// The whole file, at most `max_bytes` long (bad_data when longer).
result<std::string> read_file(const std::filesystem::path& path, size_t max_bytes);

/// Writes all bytes at the descriptor's position, resuming after short writes and signals.
status write_all(int fd, std::span<const std::byte> bytes, std::string_view what);

/// Whether the name still leads to what is open: it may have been removed, moved or made anew.
bool still_names(const std::filesystem::path& path, int fd);

/// Makes a rename, creation or removal in the folder survive a power cut.
status fsync_directory(const std::filesystem::path& path);

/// Renames to a name that nothing has; false where something has it. File systems that know no such
/// rename (NFS, Lustre) are asked first whether the name is free. Error io; not durable.
result<bool> rename_to_free(const std::filesystem::path& from, const std::filesystem::path& to);

/// Two names change places in one step; false where the file system cannot do that. Error io; not
/// durable.
result<bool> change_places(const std::filesystem::path& one, const std::filesystem::path& other);

/// Replaces (or makes) `path` by `content`, atomically and durably (FILE-1).
status write_atomic(const std::filesystem::path& path, std::string_view content);

/// A read-only map of a whole file. Shared: spans into it live as long as someone holds it.
/// The file must not be truncated by others while mapped (the system answers with SIGBUS).
class mapped_file {
 public:
  /// Maps `path`; an empty file gives an empty span.
  static result<std::shared_ptr<const mapped_file>> open(const std::filesystem::path& path);

  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file();

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  mapped_file(std::filesystem::path path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A map is read once, front to back: what was read leaves the memory of the process, which a map
/// else keeps until it closes. It stays readable, from the system's cache or the disk.
class map_scan {
 public:
  explicit map_scan(const mapped_file& map) noexcept;
  map_scan(const map_scan&) = delete;
  map_scan& operator=(const map_scan&) = delete;
  ~map_scan();  ///< the rest leaves, too

  /// The first `end` bytes of the map have been read.
  void passed(size_t end) noexcept;

 private:
  std::span<const std::byte> all_;
  size_t left_ = 0;  ///< so many bytes are out already
};

/// A file being written beside its target; commit() puts it in place (FILE-1, FILE-2). Writes are
/// buffered (1 MiB).
class atomic_file {
 public:
  static result<atomic_file> create(const std::filesystem::path& path);

  atomic_file(atomic_file&& other) noexcept;
  atomic_file& operator=(atomic_file&&) = delete;
  ~atomic_file();

  /// Appends bytes.
  status write(std::span<const std::byte> bytes);
  status write(std::string_view text);

  /// Overwrites bytes already written, e.g. a count in a header.
  status overwrite(uint64_t offset, std::span<const std::byte> bytes);

  /// Bytes appended so far.
  uint64_t size() const noexcept { return size_; }

  /// Flushes, fsyncs, renames, fsyncs the folder. Nothing may be written afterwards.
  status commit();

 private:
  atomic_file(unique_fd fd, std::filesystem::path target, std::filesystem::path temporary);
  status flush();

  unique_fd fd_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;  ///< empty once committed or moved from
  std::string buffer_;
  uint64_t size_ = 0;
};

/// Standard CRC32C (Castagnoli): crc32c("123456789") = 0xE3069283. `previous` continues a running
/// checksum: crc32c(b, crc32c(a)) == crc32c(ab).
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t previous = 0) noexcept;

/// The bytes of a text.
inline std::span<const std::byte> as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace troupe::io
