// Which checkpoint a run starts from.
//
// The format of checkpoints and their folders is io/checkpoint's affair.
//
// Invariants
//   CAT-1  Nothing is trained from a checkpoint unless every byte that is loaded of it is as it was
//     written. Who loads verifies what it reads; a launcher does not read all of it before, unless
//     a load has failed.
//   CAT-2  One that is skipped is named with its reason; where there are some and none is
//     sound, nothing starts.
//   CAT-3  Where a launch begins, no complete checkpoint is left that does not lead to it: the
//     others are set aside under other names, each is told, and none is taken by itself again.
//   CAT-4  Nor where a run goes back beyond its newest: what ranks could not load is set aside only
//     if it is found damaged here as well, and the run stays on its own line.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/job/train_state.hpp"
#include "io/base/result.hpp"
#include "io/checkpoint/line.hpp"
#include "io/checkpoint/parallel.hpp"
#include "io/disk/file_system.hpp"

namespace troupe::checkpoint {

/// One complete checkpoint.
struct resume_point {
  std::filesystem::path path;
  uint64_t step = 0;
  io::checkpoint::lineage line = {};  ///< never empty where it was read from a manifest
  train_state state = {};  ///< what a run that resumes from it takes over; of the manifest alone
                           ///< its loss is known
};

/// Whether a folder is one of our checkpoints, damaged or not, rather than a Hugging Face folder.
bool is_checkpoint(const std::filesystem::path& folder);

/// Checks every byte of a checkpoint (CAT-1). Errors: bad_data naming the place, with what to do.
status verify(const std::filesystem::path& checkpoint,
              const io::checkpoint::work_options& options = {});

/// Where to start.
struct start {
  std::optional<resume_point> from;
  std::vector<std::string> passed_over;  ///< a sentence for each newer one that is not taken
};

/// How closely a checkpoint is looked at.
enum class look : uint8_t {
  fits,   ///< manifest and small files are whole, shards are there and as long as it says
  whole,  ///< every byte is as it was written
};

/// What checkpoint.resume means: nothing for "never" or an empty folder with "auto"; a named
/// checkpoint must exist and be sound (CAT-1, CAT-2). `second` is the second tier, empty where
/// there is none; what both have is taken from `dir`. The path of one in a tier is the tier's and
/// its name.
result<start> resume_from(io::file_system& files, const std::string& resume,
                          const std::filesystem::path& dir, const std::filesystem::path& second,
                          look how = look::whole);
/// The same on this machine.
result<start> resume_from(const std::string& resume, const std::filesystem::path& dir,
                          const std::filesystem::path& second = {}, look how = look::whole);

/// What a launch that starts there saves: a line of its own, or the one of `from` continued.
io::checkpoint::origin origin_of(const std::optional<resume_point>& from, uint64_t launch);

/// Sets aside the checkpoints in `dir` that the launch leaves behind (CAT-3); a sentence for each.
/// What it has saved itself stays.
result<std::vector<std::string>> set_aside(io::file_system& files,
                                           const std::filesystem::path& dir,
                                           const io::checkpoint::origin& launch);

/// Where a run goes back to.
struct older_choice {
  resume_point from;  ///< without its state
  std::string state;  ///< train_state.json of it; empty where it has none
  std::vector<std::string> told;  ///< a sentence for each that is skipped or set aside
};

/// The newest of the checkpoints in `tiers` that `launch` has saved or has begun from, of step
/// `at_most` or before and none of `unsound`, of which the last has just failed; those that do not
/// lead to it are left behind (CAT-4). Who loads it verifies its tensors (CAT-1). Errors:
/// unavailable where that last one is whole; bad_data where none is left; io.
result<older_choice> choose_older(io::file_system& files,
                                  std::span<const std::filesystem::path> tiers,
                                  const io::checkpoint::origin& launch,
                                  std::span<const std::string> unsound, uint64_t at_most);

/// What became of leftovers: names of folders, and a sentence for each that is not ours to remove.
struct leftovers {
  std::vector<std::string> removed, kept;
};

/// Removes what interrupted saves left in `dir`, which nobody else may be writing to.
result<leftovers> remove_leftovers(io::file_system& files, const std::filesystem::path& dir);

}  // namespace troupe::checkpoint
