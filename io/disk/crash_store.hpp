// A file system in memory that knows what a power cut would leave of it: every change is logged,
// and is durable only once a sync covered it. From the log it makes the images of the file system
// after a crash at any point, with any subset of what was not yet durable kept (the abstract model
// of ALICE: nothing is promised but what fsync promises).
//
// The model: a write to a file is durable after a sync of that file, a name (of a file or folder)
// after a sync of its folder; a rename or exchange is atomic, and durable when all folders it
// touches were synced. Writes longer than a block may be torn in two. What was not synced may be
// kept or lost in any combination, whatever its order. A failed sync leaves its bytes lost to all
// later syncs, which say "fine" (fsyncgate).
//
// Invariants
//   CS-1  What a sync covered is in every later image.
//   CS-2  The log only grows; a point in it names one instant for good.
//   CS-3  Readers of the store itself see every change at once, as those of a kernel's cache do.
//
// Threads: any (one lock). Paths are taken from one root; "." and ".." are resolved by their text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/disk/disk.hpp"

namespace troupe::io {

class crash_images;

class crash_store : public std::enable_shared_from_this<crash_store> {
 public:
  using path = std::filesystem::path;
  /// A file or folder whatever its name; 0 is none, 1 the root.
  using node_id = uint64_t;
  static constexpr size_t never = std::numeric_limits<size_t>::max();

  enum class change_kind : uint8_t { data, length, names, sync_file, sync_dir, mark };

  /// One name of one folder gets another node (0: goes).
  struct name_edit {
    node_id folder = 0;
    std::string name;
    node_id node = 0;
    bool to_folder = false;
  };

  struct change {
    change_kind kind = change_kind::mark;
    node_id node = 0;
    uint64_t offset = 0;                ///< of data; of length: the new one
    bool grow_only = false;             ///< length: never cuts
    std::string bytes;                  ///< of data
    std::vector<name_edit> edits;       ///< all or none
    std::set<node_id> folders_to_sync;  ///< of names: not yet synced
    size_t durable_at = never;          ///< the place in the log of the sync that covered it
    bool lost = false;                  ///< a failed sync or write: no sync covers it any more
    std::string text;                   ///< for people
  };

  /// An empty file system with a limit on its bytes.
  static std::shared_ptr<crash_store> make(
      uint64_t capacity_bytes = std::numeric_limits<uint64_t>::max());

  // -- what a disk does; each answers 0 or an errno ----------------------------------------------

  int open(const path& name, open_mode mode, node_id& node);
  /// Bytes taken (up to the last whole block that the capacity allows), or -errno.
  int64_t write(node_id node, uint64_t offset, std::span<const std::byte> bytes);
  /// The bytes may have reached the disk, but nobody was told so.
  void write_and_fail(node_id node, uint64_t offset, std::span<const std::byte> bytes);
  /// Bytes read; 0 at the end.
  int64_t read(node_id node, uint64_t offset, std::span<std::byte> bytes) const;
  uint64_t size(node_id node) const;
  int reserve(node_id node, uint64_t bytes);
  int sync_file(node_id node);
  int fail_sync_file(node_id node, int failure);
  int make_dir(const path& name);
  int rename(const path& from, const path& to, bool replace = true);
  int exchange(const path& one, const path& other);
  int remove(const path& name, bool folder);
  int list(const path& folder, std::vector<dir_entry>& found) const;
  int sync_dir(const path& folder);

  /// A lock of whoever reads a file, or one against all readers; nothing where the others' forbid
  /// it. Not in the log: it goes with its last copy, as a kernel's does with a process.
  file_lock lock(node_id node, bool against_readers);

  // -- the log -----------------------------------------------------------------------------------

  /// A note in the log, e.g. "acknowledged 7", to know by `marks_before` what was promised.
  void mark(std::string text);
  /// How many changes, syncs and marks there were: the last point of crash_at.
  size_t points() const;
  /// What happened between point and point + 1, in words.
  std::string text(size_t point) const;
  std::vector<std::string> marks_before(size_t point) const;
  /// How many syncs were asked for; the n-th (from 1) is to do nothing and say it did: a mutation
  /// of the code under test that forgot it. Set before it happens.
  size_t syncs() const;
  void ignore_sync(size_t nth);

  // -- crashes -----------------------------------------------------------------------------------

  struct image_limits {
    size_t enumerate = 8;  ///< all subsets of up to so many unsynced pieces, else
    size_t samples = 128;  ///< so many: all, none, each alone, all but each, and by lot
    uint64_t seed = 1;
  };
  /// The file systems a crash at `point` could leave (point <= points()).
  crash_images crash_at(size_t point, const image_limits& limits) const;
  crash_images crash_at(size_t point) const;

 private:
  friend class crash_images;
  struct inode {
    bool folder = false;
    std::shared_ptr<std::string> bytes = std::make_shared<std::string>();  ///< shared by images
    std::map<std::string, node_id> names;
  };
  struct tree {
    std::map<node_id, inode> nodes;
    node_id find(const path& name) const;
  };
  /// One piece that is kept or lost as a whole: the bytes [begin, end) of a data change, or all of
  /// another change.
  struct piece {
    size_t at = 0;
    uint64_t begin = 0, end = 0;
  };

  explicit crash_store(uint64_t capacity_bytes) : capacity_(capacity_bytes) {
    live_.nodes[1].folder = true;
  }
  static void apply(tree& to, const change& what, uint64_t begin, uint64_t end);
  void log(change what, bool seen = true);
  bool sync_ignored();
  int place(const path& name, node_id& folder, std::string& last) const;
  uint64_t used() const;

  mutable std::mutex mutex_;
  const uint64_t capacity_;
  tree base_;  ///< at point 0
  tree live_;
  std::vector<change> log_;
  std::vector<size_t> unsynced_;  ///< places in the log
  node_id last_node_ = 1;
  std::map<node_id, int> locks_;  ///< how many readers; -1: none may
  size_t syncs_ = 0;
  std::set<size_t> ignored_;
};

/// The images of one crash, one after the other.
class crash_images {
 public:
  /// A new store that has one of the images, all of it durable; null at the end.
  std::shared_ptr<crash_store> next();
  /// What was not durable and is kept in the image that next() gave last.
  const std::string& kept() const noexcept { return kept_; }
  bool exhaustive() const noexcept { return exhaustive_; }
  size_t pieces() const noexcept { return pieces_.size(); }

 private:
  friend class crash_store;
  crash_images(std::shared_ptr<const crash_store> of, size_t point,
               const crash_store::image_limits& limits);
  std::vector<bool> choice();

  std::shared_ptr<const crash_store> of_;
  size_t point_;
  crash_store::image_limits limits_;
  std::vector<crash_store::piece> pieces_;
  crash_store::tree start_;  ///< what all images have: the changes before the first piece
  size_t from_ = 0;          ///< the first change that is not in it
  bool exhaustive_ = false;
  uint64_t given_ = 0;
  std::mt19937_64 lot_;
  std::string kept_;
};

}  // namespace troupe::io
