// The checkpoints in a folder: their names, their order, what their state file says.
//
//   <dir>/step-00000120/                  complete: it was renamed to this name last
//     config.json, model*.safetensors[.index.json], tokenizer files     Hugging Face layout
//     optimizer*.safetensors              master weights and moments, float32, by tensor name
//     train_state.json
//     {"format":1,"step":120,"tokens":...,"loss":...,"config":"<TOML>"}
//     MANIFEST                            length and CRC-32C of all of these
//   <dir>/step-00000120.partial/          being written, or left by a crash: never read, removed at
//   the next start
//
// Invariants
//   CAT-1  Only folders named step-<8 or more digits> that hold a train_state.json or a MANIFEST
//     are checkpoints.
//   CAT-2  Nothing is resumed from a checkpoint unless every byte of it is as it was written; a
//     damaged one is named, never passed over.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::checkpoint {

/// What train_state.json says.
struct train_state {
  uint64_t step = 0;    ///< the last finished step
  uint64_t tokens = 0;  ///< trained on so far
  double loss = 0;      ///< of the last step
  std::string config_toml;
};

/// One complete checkpoint.
struct entry {
  std::filesystem::path path;
  uint64_t step = 0;
};

/// "step-00000120".
std::string folder_name(uint64_t step);
/// "step-00000120.partial".
std::string partial_name(uint64_t step);

/// Complete checkpoints of `dir`, oldest first; empty if there is no such folder (CAT-1).
std::vector<entry> list(const std::filesystem::path& dir);

/// JSON text and back. Foreign: bad_data with what is wrong.
std::string format_state(const train_state& state);
result<train_state> parse_state(std::string_view text);
result<train_state> read_state_file(const std::filesystem::path& checkpoint);

/// What of a checkpoint is read.
enum class part : uint8_t {
  all,    ///< to resume
  model,  ///< all but the optimizer's files: to generate, or to start from its weights
};

/// Whether a folder is one of our checkpoints, damaged or not, rather than a Hugging Face folder.
bool is_checkpoint(const std::filesystem::path& folder);

/// Checks a checkpoint's bytes against its MANIFEST. Errors: bad_data naming the file, with what to
/// do; reads all of the part.
status verify(const std::filesystem::path& checkpoint, part read);

/// Removes what interrupted saves left in `dir`; the names of the folders.
result<std::vector<std::string>> remove_partial(const std::filesystem::path& dir);

/// What checkpoint.resume means: nothing for "never" or an empty folder with "auto"; a named
/// checkpoint must exist. What it answers is verified (CAT-2).
result<std::optional<entry>> resume_from(const std::string& resume,
                                         const std::filesystem::path& dir);

/// Folders that retention gives up: all but the newest `keep` (0: none).
std::vector<entry> expired(std::vector<entry> all, int64_t keep);

}  // namespace troupe::checkpoint
