// Which checkpoints are kept, and how the others are removed. The rules are pure; removal is apart.
//
// Invariants
// RT-1 The newest checkpoint with a readable manifest is kept, whatever the rules.
// RT-2 What cannot be read is kept and not counted: a person decides about it.
// RT-3 A checkpoint that is removed loses its name first (rename, sync), then its files; a crash in
//      between leaves something that is never read and is collected the next time.
// RT-4 A folder that holds what no checkpoint has (a note, a person's copy) stays whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

  /// Whether all are kept.
  bool empty() const noexcept { return keep_last == 0 && keep_every == 0 && keep_best == 0; }
};

/// What is to be removed of a catalog, and why.
struct doomed {
  std::filesystem::path path;
  folder_name name;
  uint64_t bytes = 0;
  std::string why;
};

/// Why each entry is kept, by its index: a word or two, empty for what is given up.
std::vector<std::string> kept_because(std::span<const entry> catalog, const retention& rules);

/// What to remove, oldest first. `now_s` is the time since 1970; `in_use` are names of folders that
/// nobody may remove now (the checkpoint being written or read).
std::vector<doomed> plan_removal(std::span<const entry> catalog, const retention& rules,
                                 int64_t now_s, std::span<const std::string> in_use = {});

/// Whether remove() would remove it now; permission where it holds what is not ours (RT-4).
status check_removal(const doomed& what);

/// Removes one folder (RT-3). Errors: permission where it holds what is not ours (RT-4); io.
status remove(const doomed& what);

/// Removes from `dir` what no rule keeps, but for `in_use`. Partial folders are left alone, as they
/// are for whoever is writing there. Error io.
status retain(const std::filesystem::path& dir, const retention& rules,
              std::span<const std::string> in_use = {});

}  // namespace troupe::io::checkpoint
