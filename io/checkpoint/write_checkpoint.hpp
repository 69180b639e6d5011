// Writes a whole checkpoint from one process: what an import and the tests need.
//
// Each rank's shard in turn goes through a small ring to the disk, by the same code and in the same
// order as a save of a training (save.hpp).
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "io/base/result.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/parallel.hpp"
#include "io/checkpoint/save.hpp"
#include "io/checkpoint/save_plan.hpp"

namespace troupe::io::checkpoint {

/// Fills `out` with the elements [what.first, what.first + what.count) of a part of a tensor, a
/// range of a piece of the stage's plan; out.size() = what.bytes.
using value_source =
    std::function<status(uint32_t stage, const planned_piece& what, std::span<std::byte> out)>;

struct write_options {
  std::filesystem::path dir;  ///< the folder of checkpoints; made if it is missing
  manifest_head head;         ///< its layout is set from the stages and data_ranks
  int data_ranks = 1;
  uint64_t cut_elements = 1024;   ///< as in save_options
  checkpoint::progress progress;  ///< of the shards' bytes
};

/// Writes and publishes step-N; the path of the complete folder. Errors: bug for impossible stages,
/// what the source returned, io. A failure leaves a partial folder, never a complete one.
result<std::filesystem::path> write_checkpoint(const write_options& options,
                                               std::span<const plan_stage> stages,
                                               const value_source& values,
                                               std::span<const small_file> others);

}  // namespace troupe::io::checkpoint
