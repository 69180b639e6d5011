// Between a store and the checkpoints of it: what of a stage is saved, and how it comes back.
//
// Saved are master weights and both moments, float32, of every chunk but tied copies. Weights in
// the compute type are the masters' roundings, gradients are zero between steps: neither is saved.
#pragma once

#include <span>
#include <vector>

#include "gpu/store/store.hpp"
#include "io/base/result.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/save_plan.hpp"

namespace troupe::gpu {

/// A stage's chunks as a save plan names them, in the optimizer's order; tied copies left out.
/// They are a stage's last chunks, so an index in the plan is the chunk's index in the store.
io::checkpoint::plan_stage saved_chunks(std::span<const chunk_info> chunks);

/// The array of a store that a saved part is: master, m or v.
part store_part(io::checkpoint::part which);

/// What of a checkpoint is restored.
enum class restored : uint8_t {
  everything,  ///< master weights and moments
  weights,     ///< master weights; moments stay as they are
};

/// The parts that are restored, in the order in which they lie in a checkpoint.
std::span<const io::checkpoint::part> parts_of(restored what);

/// Reads one part of one chunk from a checkpoint of any layout straight into the store's memory;
/// weights in another type than f32 are for the caller to publish (publish_weights). Blocks; the
/// chunk must be quiet. Errors as restore_state.
status restore_part(parameter_store& store, const io::checkpoint::reader& from, int chunk,
                    io::checkpoint::part which, unsigned threads = 0);

/// Fills every chunk of the store, tied copies too, from a checkpoint of any layout. Blocks; reads
/// a chunk at a time, with as many threads as `threads` (0: the reader's choice). Errors: bad_data
/// naming a tensor that is missing, of another shape or type, or damaged; io.
status restore_state(parameter_store& store, const io::checkpoint::reader& from, restored what,
                     unsigned threads = 0);

}  // namespace troupe::gpu
