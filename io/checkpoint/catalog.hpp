// The checkpoints in a folder: their names, which are complete, which one to start from.
//
//   <dir>/step-00000120/             complete: it was renamed to this name last
//   <dir>/step-00000120.e3.partial/  being written by epoch 3, or left by a crash: never read
//   <dir>/step-00000120.deleting/    given up: never read, removed sooner or later
//   <dir>/step-00000120.aside-1/     whole, of a line that was left (line.hpp): read by name alone
//
// Invariants
// CT-1 Only folders of the first form are read by themselves.
// CT-2 A checkpoint is trusted only when every byte of it verified; each one skipped is named
//      with its reason.
// CT-3 What is chosen is of the line of the newest launch; what that line has left is skipped,
//      whatever its step. What was set aside in one folder is not taken from another either, and
//      that is told.
// CT-4 What is set aside keeps every byte; only its name changes.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/parallel.hpp"

namespace troupe::io::checkpoint {

/// What a folder's name says it is.
enum class folder_state : uint8_t { complete, partial, deleting, aside };

/// A folder's name, parsed.
struct folder_name {
  uint64_t step = 0;
  std::optional<uint64_t> epoch;  ///< of partial ones
  folder_state state = folder_state::complete;
  uint32_t number = 0;  ///< of those set aside: from 1
  bool operator==(const folder_name&) const = default;
};

/// "step-00000120".
std::string complete_name(uint64_t step);
/// "step-00000120.e3.partial".
std::string partial_name(uint64_t step, uint64_t epoch);
/// "step-00000120.deleting".
std::string deleting_name(uint64_t step);
/// "step-00000120.aside-1".
std::string aside_name(uint64_t step, uint32_t number);
/// What a name means; nothing for names that are not a checkpoint's. The partial folders of plain
/// saves ("step-00000120.partial") are known too.
std::optional<folder_name> parse_folder_name(std::string_view name);

/// Problems of folders: the manifest is another step's, or there is none.
inline constexpr error_kind<std::string_view, uint64_t> of_another_step{
    "of_another_step", errc::bad_data, "{}: it is of step {}"};
inline constexpr error_kind<std::string_view> no_manifest{"no_manifest", errc::bad_data,
                                                          "it has no {}"};

/// One folder of the catalog.
struct catalog_entry {
  std::filesystem::path path;
  folder_name name;
  /// Of complete and aside ones with a readable manifest; what it says of files is not judged.
  std::optional<manifest_head> head;
  std::optional<error> problem;       ///< of the others of these: why there is no head
  uint64_t bytes = 0;                 ///< of all files in the folder
  int64_t changed_s = 0;              ///< newest change of the folder or its files, since 1970
  std::vector<hold> holds;            ///< retention keeps what has one

  /// The order of catalogs: newest first, by step, then epoch.
  std::pair<uint64_t, uint64_t> age_key() const noexcept {
    return {name.step, head ? head->epoch : name.epoch.value_or(0)};
  }
};

/// Every checkpoint and leftover in `dir`, newest first by (step, epoch); none if there is no such
/// folder. Reads manifests, no tensors. Error io.
result<std::vector<catalog_entry>> list(file_system& files, const std::filesystem::path& dir);
/// The same on this machine.
result<std::vector<catalog_entry>> list(const std::filesystem::path& dir);

/// An epoch that none of these checkpoints and leftovers bears: larger than all of them, at least
/// 1. Whoever still writes for an earlier one writes under other names.
uint64_t next_epoch(std::span<const catalog_entry> all);

/// The complete checkpoint whose line goes on: the newest of the newest launch (CT-3); none where
/// none is readable.
const catalog_entry* tip_of(std::span<const catalog_entry> all);

/// A checkpoint that a start comes to.
struct candidate {
  catalog_entry what;
  bool left = false;  ///< set aside in another folder: skipped (CT-3)
};

/// What a start comes to, the newest first, of equals that which comes first in `all`: the complete
/// ones of the line that goes on, unreadable ones, and those that were left (CT-1, CT-3). Pure.
std::vector<candidate> start_order(std::vector<catalog_entry> all);

/// The complete ones that do not lead to `line` (empty: a start from nothing, to which none leads),
/// and unreadable ones above its step; newest first.
std::vector<catalog_entry> left_behind(std::span<const catalog_entry> all, const lineage& line);

/// Gives complete checkpoints of one folder names that nothing takes by itself (CT-4), the newest
/// first; the new paths. What was renamed before an error stays renamed. Error io.
result<std::vector<std::filesystem::path>> set_aside(file_system& files,
                                                     std::span<const catalog_entry> which);

/// Whether every byte of a checkpoint is as it was written. Errors: bad_data naming the first
/// damaged place; not_found; io; cancelled.
status verify_all(file_system& files, const std::filesystem::path& checkpoint,
                  const work_options& options = {});
/// The same on this machine.
status verify_all(const std::filesystem::path& checkpoint, const work_options& options = {});

/// A checkpoint that was skipped.
struct rejection {
  std::filesystem::path path;
  error why;
};

/// The newest checkpoint of a line that was found good.
struct choice {
  std::optional<std::filesystem::path> path;
  std::vector<rejection> rejected;  ///< newer ones (CT-2)
  /// Newer ones that were set aside in another folder (CT-3).
  std::vector<std::filesystem::path> left;
};

/// Judges from the newest of the line of the newest launch on until one is good (CT-3), in all of
/// `dirs`; of equally new ones that of the earlier folder comes first. A folder that cannot be
/// looked through is skipped as a whole where there are others. Error: io, cancelled.
result<choice> newest_that(
    file_system& files, std::span<const std::filesystem::path> dirs,
    const std::function<status(const std::filesystem::path& checkpoint)>& is_good);

/// The same of those whose every byte is as it was written.
result<choice> newest_that_verifies(file_system& files, std::span<const std::filesystem::path> dirs,
                                    const work_options& options = {});

}  // namespace troupe::io::checkpoint
