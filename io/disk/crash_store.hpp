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
// Several processes may share a store on virtual time: each change says whose it is and when it is
// made, which may be later than it is asked for and seen. One of them can be lost with its host
// (lose), a kernel writes back by itself (settle), a folder can be full or gone (set_outage).
//
// Invariants
//   CS-1  What a sync covered is in every later image, and survives the loss of any writer, but for
//         syncs that were still to be made when it was lost.
//   CS-2  The log grows until settle() gives its history up, or lose() what was never made; a point
//         in it names one instant for good.
//   CS-3  Readers of the store itself see every change at once, as those of a kernel's cache do.
//   CS-4  A sync covers what was made before it by the log and by the time.
//   CS-5  After settle() of everything the log is empty and there is no node but those with a name
//         and those that somebody holds.
//   CS-6  Room that is kept for a file is nobody else's, and goes with a cut, a loss or a crash.
//
// Threads: any (one lock). Paths are taken from one root; "." and ".." are resolved by their text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/disk/disk.hpp"

namespace troupe::io {

class crash_images;

/// Who makes a change, and when it is made.
struct stamp {
  uint32_t writer = 0;
  int64_t at_ns = 0;  ///< virtual time
};

/// What does not work below a top-level folder for a while.
enum class outage : uint8_t {
  none,
  full,  ///< what takes space is answered ENOSPC: a new file or folder, a write, a reservation
  gone,  ///< as an unmounted share: names are ENOENT, files that are open EIO
};

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
    std::string name = {};
    node_id node = 0;
    bool to_folder = false;
  };

  enum class sync_outcome : uint8_t { covers, fails, ignored };

  struct change {
    change_kind kind = change_kind::mark;
    node_id node = 0;
    uint64_t offset = 0;           ///< of data; of length: the new one
    bool grow_only = false;        ///< length: never cuts
    std::string bytes = {};        ///< of data
    std::vector<name_edit> edits = {};  ///< all or none
    sync_outcome outcome = sync_outcome::covers;
    stamp by = {};
    bool seen = true;        ///< false: a failing write, of which the bytes may be on the disk
    size_t kept_at = never;  ///< the place in the log since which it is there without any sync
    std::string text = {};   ///< for people

    /// Whether it changes anything that a crash could lose.
    bool lasting() const {
      return kind == change_kind::data || kind == change_kind::length || kind == change_kind::names;
    }
  };

  /// An empty file system with a limit on its bytes.
  static std::shared_ptr<crash_store> make(
      uint64_t capacity_bytes = std::numeric_limits<uint64_t>::max());

  // -- what a disk does; each answers 0 or an errno ----------------------------------------------

  int open(const path& name, open_mode mode, node_id& node, stamp by = {});
  /// Bytes taken (up to the last whole block that the capacity allows), or -errno.
  int64_t write(node_id node, uint64_t offset, std::span<const std::byte> bytes, stamp by = {});
  /// The bytes may have reached the disk, but nobody was told so.
  void write_and_fail(node_id node, uint64_t offset, std::span<const std::byte> bytes,
                      stamp by = {});
  /// Bytes read, 0 at the end; or -errno.
  int64_t read(node_id node, uint64_t offset, std::span<std::byte> bytes) const;
  uint64_t size(node_id node) const;
  int reserve(node_id node, uint64_t bytes, stamp by = {});
  /// The length of a file.
  int cut(node_id node, uint64_t bytes, stamp by = {});
  /// Writes up to `bytes` of the file find room, whatever else is written; its length stays (CS-6).
  int keep_room(node_id node, uint64_t bytes);
  int sync_file(node_id node, stamp by = {});
  int fail_sync_file(node_id node, int failure, stamp by = {});
  int make_dir(const path& name, stamp by = {});
  int rename(const path& from, const path& to, bool replace = true, stamp by = {});
  /// A second name of a file; durable after a sync of the folder that it is in.
  int link(const path& file, const path& name, stamp by = {});
  /// How many names a file has; 0: there is none.
  uint64_t names_of(const path& file) const;
  /// Of a file, whatever its names.
  int look(node_id node, file_facts& facts) const;
  int exchange(const path& one, const path& other, stamp by = {});
  int remove(const path& name, bool folder, stamp by = {});
  int list(const path& folder, std::vector<dir_entry>& found) const;
  int sync_dir(const path& folder, stamp by = {});

  /// The node of a folder.
  int find_folder(const path& name, node_id& node) const;

  /// Keeps a file without a name: whoever has it open holds it, else settle() may forget it.
  file_lock hold(node_id node);
  /// A lock of whoever reads a file, or one against all readers; nothing where the others' forbid
  /// it. Not in the log: it goes with its last copy, as a kernel's does with a process.
  file_lock lock(node_id node, bool against_readers);

  /// From now on for all below `top`, a top-level folder, and for the files that are opened under
  /// it, until told otherwise. What is there is there again when it ends. Locks go on.
  void set_outage(const path& top, outage how);

  // -- what changed, for caches ------------------------------------------------------------------

  /// Grows with each change of any name that readers may see.
  uint64_t names_version() const;
  /// Grows with each change, sync, mark, loss or outage.
  uint64_t changes() const;
  /// A file's node, and a number that changes whenever its bytes or its length do; of a folder,
  /// whenever its own names do. Nothing where there is neither.
  std::optional<std::pair<node_id, uint64_t>> version_of(const path& name) const;

  // -- processes that end, kernels that go on ----------------------------------------------------

  /// The host of a writer is lost at `now_ns`: what it was to do after that was never done, syncs
  /// neither; each of its changes that no sync covers by then is kept for good or lost by random (a
  /// long write in two); those of others stay as they are. Open handles stay usable: their file
  /// may have no name any more. Images asked for before are not to be used any more.
  using survives = std::function<bool(change_kind)>;
  void lose(uint32_t writer, int64_t now_ns, const survives& keeps);
  /// A kernel has written back what was made before `before_ns`, but for what a failed sync or
  /// write has lost. That history is given up, with what syncs have made durable by `synced_ns`;
  /// first_point() is now, and marks are gone. Images asked for before are not to be used any more.
  void settle(int64_t before_ns, int64_t synced_ns);
  void settle(int64_t before_ns) { settle(before_ns, before_ns - 1); }
  /// Whether `name` and all below it would survive the loss of any writer at `now_ns` or later:
  /// nothing touches it, nor its way from the root, that is not durable by then. What is made after
  /// `now_ns` is not durable, and makes nothing so. Outages do not count.
  bool durable(const path& name, int64_t now_ns) const;

  // -- the log -----------------------------------------------------------------------------------

  /// Changes are not told in words any more: a simulation has many, and nobody reads them.
  void be_brief() { texts_ = false; }
  /// A note in the log, e.g. "acknowledged 7", to know by `marks_before` what was promised.
  void mark(std::string text);
  /// How many changes, syncs and marks there were: the last point of the log.
  size_t points() const;
  /// The first point that is known: 0, or where settle() was called last.
  size_t first_point() const;
  /// How many changes, syncs and marks the log still has, and how many nodes are known.
  size_t logged() const;
  size_t nodes() const;
  /// What happened between point and point + 1, in words; nothing where that is given up.
  std::string text(size_t point) const;
  std::vector<std::string> marks_before(size_t point) const;
  /// How many syncs were asked for; the n-th (from 1) is to do nothing and say it did: a mutation
  /// of the code under test that forgot it. Set before it happens.
  size_t syncs() const;
  void ignore_sync(size_t nth);

 private:
  friend class crash_images;  // tests/io/disk/crash_images.hpp: what a power cut could leave
  using change_log = std::map<size_t, change>;  ///< by place
  struct inode {
    bool folder = false;
    std::shared_ptr<std::string> bytes = std::make_shared<std::string>();  ///< shared by images
    std::map<std::string, node_id, std::less<>> names;
    uint64_t version = 0;  ///< of the bytes, or the names
    uint64_t room = 0;     ///< kept for the file; in no log
  };
  struct tree {
    std::map<node_id, inode> nodes;
    node_id find(std::span<const std::string_view> parts) const;
  };
  /// What became of a lasting change.
  struct fate {
    size_t durable_at = never;          ///< the place in the log of the sync that covered it
    bool lost = false;                  ///< a failed sync or write: no sync covers it any more
    std::set<node_id> folders_to_sync;  ///< of names: not yet synced
  };
  /// A lasting change that no sync has covered.
  struct pending {
    size_t at = 0;
    bool names = false;
    node_id node = 0;  ///< of bytes
    int64_t made_ns = 0;
  };
  /// What syncs have made of a log so far.
  struct ledger {
    std::map<size_t, fate> fates;
    std::vector<pending> unsynced;
    std::vector<size_t> lost;  ///< places in the log
    void add(const change_log& log, size_t at);
    bool durable(size_t at, size_t before = never) const;
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
  /// Into `name`.
  static std::vector<std::string_view> parts_of(const path& name);
  static bool lies_in(std::span<const std::string_view> name,
                      std::span<const std::string_view> folder);
  static void apply(tree& to, const change& what, uint64_t begin, uint64_t end);
  static std::vector<piece> pieces_of(size_t at, const change& what);
  void log(change what);
  void log_write(change what, node_id node, uint64_t offset, std::span<const std::byte> bytes,
                 std::string_view doing);
  bool sync_ignored();
  int end_sync(node_id node, int failure, stamp by);
  int place(const path& name, node_id& folder, std::string& last) const;
  int folder_at(const path& name, node_id& node) const;
  outage outage_of(const path& name) const;
  outage outage_of(node_id open_file) const;
  static uint64_t taken_by(const inode& file);
  uint64_t count_names(node_id node) const;
  uint64_t free_bytes() const;
  ledger as_of(int64_t now_ns) const;
  void read_log();
  std::vector<const change*> not_durable(int64_t now_ns) const;
  bool keep_by_chance(size_t at, const survives& keeps);
  void rebuild();
  void fold();
  std::set<node_id> reachable(std::set<node_id> from, bool in_base) const;
  void sweep();

  mutable std::mutex mutex_;
  const uint64_t capacity_;
  tree base_;  ///< without what is in the log
  tree live_;
  change_log log_;
  ledger ledger_;      ///< of all of the log
  int64_t latest_ns_ = std::numeric_limits<int64_t>::min();  ///< nothing in the log is made later
  size_t points_ = 0;  ///< the place of the next change
  size_t first_point_ = 0;
  node_id last_node_ = 1;
  uint64_t last_version_ = 0;
  uint64_t names_version_ = 0;
  std::map<node_id, int> locks_;  ///< how many readers; -1: none may
  std::map<node_id, int> held_;
  std::map<std::string, outage, std::less<>> outages_;  ///< by the name of the top-level folder
  std::map<node_id, std::string> opened_under_;  ///< such a name
  bool texts_ = true;
  size_t syncs_ = 0;
  std::set<size_t> ignored_;
};

}  // namespace troupe::io
