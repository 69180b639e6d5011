// Who writes in a folder now: at most one job at a time.
//
// `.troupe-lock` in the folder carries an advisory lock of its open file (F_OFD_SETLK) and says who
// holds it:
//
//   {"troupe-lock":1,"job":"tiny","pid":4711,"host":"gpu1","boot":"5c8b...","since":"2026-...Z",
//    "address":"10.0.0.1:4242"}
//
// The kernel's lock is free as soon as its holder is gone, kill -9 included; a holder that ends in
// order takes the file with it. Descriptors are closed on exec, so that no node keeps the lock of a
// launcher that died: what such a node still writes bears the name of its epoch (docs/checkpoints).
//
// Invariants
// LCK-1 Nobody gets a lock that the kernel says another has, on this host or, where the file system
//       carries locks between hosts, on any.
// LCK-2 A text of another host is believed, even where the kernel knows of no lock: the file system
//       may not carry it between hosts. `break_lock` ends that belief, and nothing else. Who
//       deposes a holder has heard from a majority of the job's voters that it acts no more
//       (actors/heads): that one keeps the lock of a file without a name, and takes none away.
// LCK-3 A text of this host, or of this boot, is not believed: here the kernel knows.
// LCK-4 A file of that name which is none of ours is neither locked nor changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::io {

/// The lock's name in its folder.
inline constexpr std::string_view lock_file = ".troupe-lock";
/// What is read of it at most.
inline constexpr size_t max_lock_bytes = 16 << 10;

/// Who holds a folder.
struct lock_holder {
  std::string job;
  int64_t pid = 0;
  std::string host;     ///< its name
  std::string boot;     ///< the id of the boot of its kernel
  std::string since;    ///< UTC, RFC 3339
  std::string address;  ///< where tools reach it; empty: not known yet
  bool operator==(const lock_holder&) const = default;
};

/// This process as the holder of a job's folders.
lock_holder this_process(std::string job);

/// The file's text, and back; nothing for an empty text, or for zeros, which a power cut may leave.
/// Foreign: bad_data.
std::string lock_text(const lock_holder& h);
result<std::optional<lock_holder>> parse_lock(std::string_view text);

/// Whether `self` may take what the kernel knows to be free (LCK-2, LCK-3). Pure.
bool is_believed(const std::optional<lock_holder>& written, const lock_holder& self);

/// Somebody else holds a folder: who, and what to do about it.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> folder_in_use{
    "folder_in_use", errc::timeout, "{0} is in use by {1}", "{2}"};

/// A folder that is held for as long as this lives.
class folder_lock {
 public:
  /// Errors: folder_in_use; bad_data (LCK-4); io.
  static result<folder_lock> take(const std::filesystem::path& folder, const lock_holder& self,
                                  bool break_lock = false);
  /// The same in the place of whoever holds it (LCK-2).
  static result<folder_lock> depose(const std::filesystem::path& folder, const lock_holder& self);
  folder_lock(folder_lock&&) noexcept = default;
  folder_lock& operator=(folder_lock&&) = delete;
  /// Removes the file, and lets go.
  ~folder_lock();

  const std::filesystem::path& folder() const noexcept { return folder_; }
  /// Whom `break_lock` ended the belief in, or who was deposed.
  const std::optional<lock_holder>& broken() const noexcept { return broken_; }
  /// Says where the holder is reached from now on. Error io.
  status say_address(const std::string& address);
  /// Says as whom it is held from now on. Error io.
  status say_job(const std::string& job);

 private:
  static result<folder_lock> take(const std::filesystem::path& folder, const lock_holder& self,
                                  bool break_lock, bool deposes);
  folder_lock(unique_fd fd, std::filesystem::path folder, lock_holder self)
      : fd_(std::move(fd)), folder_(std::move(folder)), self_(std::move(self)) {}
  status write() const;

  unique_fd fd_;
  std::filesystem::path folder_;
  lock_holder self_;
  std::optional<lock_holder> broken_;
};

/// Who holds a folder now, if anybody does: the kernel is asked, and believed like take() does.
result<std::optional<lock_holder>> holder_of(const std::filesystem::path& folder);

/// Whether folder_lock::take() would find the folder free now. Takes and makes nothing. Errors: as
/// there.
status check_free(const std::filesystem::path& folder, bool break_lock = false);

}  // namespace troupe::io
