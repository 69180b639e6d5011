// Folders, names and small files: an edge of the program, with the disk's operations (disk.hpp)
// behind it. The machine's own, or one in memory that fails (faulty_disk). Calls block.
//
// Each answers when the system has what was asked, not when that is durable: sync_dir() and
// durable::yes are for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/folder/owned.hpp"

namespace troupe::io {

/// What is in a folder.
struct dir_entry {
  std::string name;
  bool folder = false;
  uint64_t bytes = 0;
  int64_t changed_s = 0;  ///< since 1970; 0 where no time is kept

  /// Whenever they were changed.
  bool operator==(const dir_entry& other) const {
    return name == other.name && folder == other.folder && bytes == other.bytes;
  }
};

/// Whether write_small syncs the file before it closes it.
enum class durable : bool { no, yes };

/// What becomes of the page cache behind a read.
enum class pages : uint8_t {
  keep,
  drop,  ///< for bytes that nobody reads again soon: the cache is left to whoever needs it
};

/// A file that ends before the bytes asked for: where.
inline constexpr error_kind<std::string_view, uint64_t> file_ends{"file_ends", errc::bad_data,
                                                                  "{} ends at byte {}"};
/// Somebody holds a read lock in the folder.
inline constexpr error_kind<std::string_view> being_read{"being_read", errc::unavailable,
                                                         "{} is being read"};

/// One open file. All functions may be called by several threads at once.
class source_file {
 public:
  virtual ~source_file() = default;
  /// Its length when it was opened, in bytes.
  virtual uint64_t size() const noexcept = 0;
  /// Fills `out` from `offset` on. Errors: io; file_ends. Quickest where
  /// offset and address are multiples of 4096 (disk_block).
  virtual status read_at(uint64_t offset, std::span<std::byte> out) const = 0;
};

/// How a log is opened.
enum class log_open : uint8_t {
  existing,
  create,   ///< must not exist
  replace,  ///< made, or cut to nothing
};

/// One open file that grows at its end and may be cut there. By one thread at a time, which lets go
/// of it before the file system goes. Errors: io and what the system says, with the file's name.
class log_file {
 public:
  virtual ~log_file() = default;
  /// Writes all the bytes from `offset` on; after an error any of them may be there.
  virtual status write_at(uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Its length from now on; not durable before a sync().
  virtual status cut(uint64_t bytes) = 0;
  /// What was written is durable. After an error nothing is known of it, and no later sync tells.
  virtual status sync() = 0;
  /// Sets disk aside for what will be written at [offset, offset + bytes), so that a full disk
  /// takes it all the same; its length stays. A cut may give it back. Error also where the file
  /// system cannot do that.
  virtual status keep_room(uint64_t offset, uint64_t bytes) = 0;
  /// Whether the name leads to it.
  virtual bool is_named(const std::filesystem::path& name) const = 0;
};

/// Which folder it is, whatever its name.
struct folder_identity {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const folder_identity&) const = default;
};

/// Something that ends with the last copy of it.
using file_lock = std::shared_ptr<const void>;

class file_system {
 public:
  using path = std::filesystem::path;

  virtual ~file_system() = default;

  /// True when it was made now, false when such a folder was there.
  virtual result<bool> make_dir(const path& name) = 0;
  /// A file over a file or a free name, a folder over an empty folder or a free name.
  virtual status rename(const path& from, const path& to) = 0;
  /// True where the new name was free; else nothing has changed.
  virtual result<bool> rename_to_free(const path& from, const path& to) = 0;
  /// Gives a file a second name, which is free, on the same file system. Errors: io, and what the
  /// system says, also where names of that file system cannot share a file.
  virtual status link(const path& file, const path& name) = 0;
  /// Another file with a free name on the same file system, with the bytes that `file` has now,
  /// whose blocks they share until either is written (FICLONE). They are durable, its name is not
  /// yet. Errors: io, and what the system says, also where files share no blocks; nothing of it is
  /// there then.
  virtual status clone(const path& file, const path& name) = 0;
  /// How many names a file has. Errors: not_found, io.
  virtual result<uint64_t> names_of(const path& file) const = 0;
  /// The two names change places, atomically.
  virtual status exchange(const path& one, const path& other) = 0;
  /// A folder of which `ours` claims everything, as io::remove_claimed does.
  virtual status remove_folder(const path& name, const claim& ours) = 0;
  /// Whether remove_folder would remove it now: errors as there.
  virtual status check_removal(const path& name, const claim& ours) = 0;
  /// What is in a folder, by name.
  virtual result<std::vector<dir_entry>> list(const path& folder) = 0;
  /// The names in a folder as they are now survive a power cut.
  virtual status sync_dir(const path& folder) = 0;
  /// The whole file; bad_data when it has more than `most` bytes.
  virtual result<std::string> read_small(const path& name, size_t most) = 0;
  /// Makes or replaces a file in place (for a name nobody reads yet), and syncs its bytes if asked;
  /// its name is durable only after sync_dir.
  virtual status write_small(const path& name, std::string_view content, durable sync) = 0;
  /// A file to be read. Errors: not_found, permission, io; bad_data for what is no regular file.
  virtual result<std::shared_ptr<const source_file>> open_source(const path& name,
                                                                 pages behind) = 0;
  /// A file to be appended to, by its owner alone (mode 0600); no link is followed. Errors:
  /// not_found, permission, io (kind EEXIST where it was to be made and is there).
  virtual result<std::unique_ptr<log_file>> open_log(const path& name, log_open how) = 0;

  /// How many threads its sources are quickest with; 0: nobody knows.
  virtual unsigned reads_at_once() const { return 0; }

  /// Keeps exclude_readers() of a file away, however this process ends. Nobody waits for it for
  /// long: where readers stay excluded, or nothing can be locked, it keeps nothing (RLK-2). Errors:
  /// not_found, permission, io.
  virtual result<file_lock> read_lock(const path& file) = 0;
  /// Keeps readers away; nothing where there is no file to read. Error unavailable while somebody
  /// has a read_lock().
  virtual result<file_lock> exclude_readers(const path& file) = 0;

  /// Errors: not_found, permission, io.
  virtual result<folder_identity> identity(const path& folder) = 0;
  /// The path from the root without links, `.` and `..`. Errors: not_found, permission, io.
  virtual result<path> canonical(const path& name) = 0;
  /// Makes `link` a symbolic link to `target`, in one step, where that name is free or a link of
  /// which the target is_ours. Errors: permission where anything else is there, which stays; io.
  virtual status point_link(const path& link, const std::string& target,
                            const std::function<bool(const std::string& target)>& is_ours) = 0;
};

/// The machine's.
file_system& local_files();

}  // namespace troupe::io
