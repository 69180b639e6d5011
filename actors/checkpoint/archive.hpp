// The archive: makes the folder of a checkpoint, and turns what the ranks wrote into a checkpoint.
//
// Detached, because files block. The commit point is one rename:
//   PrepareCheckpoint: <dir>/step-N.partial is made anew
//   (the ranks write and fsync their files in it)
//   CommitCheckpoint: config.json, index, tokenizer, train_state.json and the MANIFEST of all files
//   are written and fsynced, the folder is fsynced, renamed to step-N, and <dir> is fsynced; only
//   then the answer goes out.
//
// Invariants
//   ARC-1  A folder named step-N is complete, whatever happens when.
//   ARC-2  A failed save leaves older checkpoints untouched.
//
// Failure policy: the save fails with an answer; training goes on.
#pragma once

#include <filesystem>

#include "actors/base/traced.hpp"
#include "actors/train/plan.hpp"
#include "io/formats/manifest.hpp"
#include "messages/actors.hpp"

namespace troupe::checkpoint {

/// What a checkpoint holds beyond the tensors.
struct archive_options {
  std::filesystem::path dir;
  int64_t keep = 0;
  gpu::model_config model;
  std::string tokenizer;  ///< as in data.tokenizer; its files are copied beside the model
};

/// Steps of the commit, as functions of their own for tests. `partial` becomes `complete`; `files`
/// are what the ranks wrote in it.
status commit(const archive_options& options, const std::filesystem::path& partial,
              const std::filesystem::path& complete, const std::vector<io::file_sum>& files,
              const std::string& state_json);

struct archive_state {
  static inline const char* name = "archive";
  archive_options options;
};

archive_actor::behavior_type archive(traced_pointer<archive_actor, archive_state> self,
                                     archive_options options);

}  // namespace troupe::checkpoint
