// The state of one chunk in its swap file as a shard of a checkpoint: what its footer says. Pure.
//
// A checkpoint takes such a file by a link, and nobody copies it. Its end is written when a save
// asks for it, into room that is there from the beginning.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "io/base/result.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/save_plan.hpp"
#include "io/swap/chunk_file.hpp"

namespace troupe::io {

/// CRC32C of the three arrays of a group.
using group_sums = std::array<uint32_t, state_parts>;

/// The footer of a chunk's file, of which the rank has the elements from `first` on: job, epoch,
/// step and layout of `head`. One piece for each tensor, array and group (SF-1).
checkpoint::footer chunk_footer(const chunk_file& layout, const checkpoint::plan_chunk& chunk,
                                int64_t first, const checkpoint::manifest_head& head, uint32_t rank,
                                std::span<const group_sums> sums);

/// The room that the end of such a shard takes, in bytes. Error bug for a chunk that cannot be
/// saved.
result<uint64_t> chunk_tail_bytes(const chunk_file& layout, const checkpoint::plan_chunk& chunk,
                                  int64_t first, const std::string& job);

}  // namespace troupe::io
