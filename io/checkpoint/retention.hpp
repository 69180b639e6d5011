// Which checkpoints are kept, and how the others are removed. The rules are pure; removal is apart.
//
// Invariants
// RT-1 The newest sound checkpoint of the line is kept, whatever the rules, and all newer ones.
// RT-2 What cannot be read is kept and not counted: a person decides about it.
// RT-3 A checkpoint that is removed loses its name first (rename, sync), then its files; a crash in
//      between leaves something that is never read and is collected the next time.
// RT-4 Only checkpoints of the line that goes on are counted or given up. Those of other lines, and
//      what was set aside, are left alone.
// RT-5 Only sound ones fill a rule's number: what is damaged, or not known to be whole, never takes
//      the place of a good one.
// RT-6 What a launch began from is given up, in each tier, only after a newer checkpoint of its own
//      was read back there wholly: a disk that keeps nothing costs no training that was there.
// RT-7 A folder that holds what no checkpoint has (a note, a person's copy) stays whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/checkpoint/catalog.hpp"

namespace troupe::io::checkpoint {

/// What one tier keeps; a checkpoint that any rule keeps is kept. Nothing is removed by rules that
/// are all 0.
struct retention {
  uint64_t keep_last = 0;   ///< so many of the newest
  uint64_t keep_every = 0;  ///< every step that is a multiple of it
  uint64_t keep_best = 0;   ///< so many of the smallest validation losses
  /// Leftovers of interrupted saves are removed when they have not changed for so long, in seconds.
  int64_t partial_age_s = 3600;
  bool aside = false;  ///< what was set aside goes, too, unless it is held

  /// Whether all are kept.
  bool empty() const noexcept { return keep_last == 0 && keep_every == 0 && keep_best == 0; }
};

/// What the rules are applied to.
struct standing {
  lineage line;  ///< that goes on: its next checkpoint's (RT-4)
  /// Whether a checkpoint is known to be whole (RT-5). Asked as seldom as can be, newest first.
  std::function<bool(const catalog_entry&)> sound;
};

/// What is to be removed of a catalog, and why.
struct doomed {
  std::filesystem::path path;
  folder_name name;
  uint64_t bytes = 0;
  std::string why;
};

/// Why each entry is kept, by its index: a word or two, empty for what is given up.
std::vector<std::string> kept_because(std::span<const catalog_entry> catalog,
                                      const retention& rules, const standing& now);

/// What to remove, oldest first. `now_s` is the time since 1970; `in_use` are names of folders that
/// nobody may remove now (the checkpoint being written or read).
std::vector<doomed> plan_removal(std::span<const catalog_entry> catalog, const retention& rules,
                                 const standing& now, int64_t now_s,
                                 std::span<const std::string> in_use = {});

/// Whether remove() would remove it now; permission where it holds what is not ours (RT-7).
status check_removal(file_system& files, const doomed& what);

/// Removes one folder (RT-3). Errors: permission where it holds what is not ours (RT-7);
/// unavailable while somebody reads it (hold.hpp); io.
status remove(file_system& files, const doomed& what);

/// A checkpoint whose files were to become the state of a run.
inline constexpr error_kind<std::string, std::string> not_given_up{
    "not_given_up", errc::bad_config, "{} is not given up (swap.consume): {}",
    "free space on the drive, so that the state fits beside it"};

/// The same of one that may be given up later.
inline constexpr error_kind<std::string, std::string> not_given_up_yet{
    "not_given_up_yet", errc::unavailable, "{} is not given up yet (swap.consume): {}",
    "wait until nobody reads or copies it (checkpoint.second), or free space on the drive"};

/// The same of one that nobody waits for any more to be given up.
inline constexpr error_kind<std::string> given_up_too_late{
    "given_up_too_late", errc::timeout,
    "{} is not given up (swap.consume): its run does not wait for that any more",
    "the disk of checkpoint.dir is slow, or timeouts.save_s too short"};

/// Removes one whose files ranks have by links, as their state (RT-3). Nothing where it is gone
/// already. Errors, and it is whole: not_given_up where somebody holds it, or it is not called as a
/// checkpoint is; not_given_up_yet while somebody reads it; as of remove().
status give_up(file_system& files, const std::filesystem::path& checkpoint);

/// The retention of one tier by a launch that saves into it.
class caretaker {
 public:
  /// `files` outlives it.
  explicit caretaker(origin own = {}, file_system& files = local_files())
      : files_(&files), own_(std::move(own)) {}

  /// Removes from `dir` what no rule keeps, but for `in_use`. Partial folders are left alone, as
  /// they are for whoever is writing there. Blocks: once a launch it reads a checkpoint (RT-6).
  /// Errors: io; bad_data where what was read back is damaged; permission where one holds what is
  /// not ours: it stays, and the others go; unavailable, once, of one that was being read each of
  /// three times.
  status retain(const std::filesystem::path& dir, const retention& rules,
                std::span<const std::string> in_use = {});

 private:
  bool is_own(const catalog_entry& e) const;
  bool is_origin(const std::filesystem::path& path) const;
  /// What the launch began from, or a copy of it in another tier.
  bool is_where_it_began(std::span<const catalog_entry> all,
                         const std::filesystem::path& path) const;
  status read_back(std::span<const catalog_entry> all);

  file_system* files_;
  origin own_;
  bool proven_ = false;  ///< RT-6
  std::map<std::filesystem::path, uint64_t> in_the_way_;  ///< how often one was being read
};

}  // namespace troupe::io::checkpoint
