// Which of several folders, each on a drive of its own, the swap files of a chunk are in.
//
// Pure. Round robin by chunk: neighbours, which a step uses one after the other, are on different
// drives, so that one is written while another is read. Not within a chunk: its file is a shard of
// a checkpoint, which a link takes as a whole (io/swap/chunk_shard.hpp).
//
// Invariants
//   CFO-1  The place depends on the chunk's number and on how many folders there are, alone.
//   CFO-2  What the folders hold adds up to what a stage has on disk (plan_stage).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/model/stage_shape.hpp"
#include "io/base/model_config.hpp"

namespace troupe::gpu {

/// The folder of a chunk's files, of so many >= 1.
constexpr size_t place_of_chunk(int chunk, size_t places) noexcept {
  return static_cast<size_t>(chunk) % places;
}

/// What one folder holds of a rank, in bytes.
struct place_bytes {
  uint64_t files = 0;  ///< all of them, second versions and spilled activations too
  uint64_t state = 0;  ///< of one version: what a checkpoint can take by links
  bool operator==(const place_bytes&) const = default;
};

/// Of a rank whose stage has shape.where, by folder.
std::vector<place_bytes> bytes_of_places(const model_config& model, const stage_shape& shape,
                                         size_t places);

}  // namespace troupe::gpu
