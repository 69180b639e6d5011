// Between a store and the checkpoints of it: what of a stage is saved, and how it comes back.
//
// Saved are master weights and both moments, float32, of every chunk but tied copies; of each chunk
// every replica saves the slice it has. Weights in the compute type are the masters' roundings,
// gradients are zero between steps: neither is saved.
#pragma once

#include <functional>
#include <span>
#include <stop_token>

#include "gpu/store/store.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/save_plan.hpp"

namespace troupe::gpu {

/// A stage's chunks as a save plan names them, in the optimizer's order and cut for `replicas`
/// (PS-7); tied copies left out. They are a stage's last chunks, so an index in the plan is the
/// chunk's index in the store.
io::checkpoint::plan_stage saved_chunks(std::span<const chunk_info> chunks, int replicas = 1);

/// The array of a store that a saved part is: master, m or v.
part store_part(io::checkpoint::part which);

/// What of a checkpoint is restored.
enum class restored : uint8_t {
  everything,  ///< master weights and moments
  weights,     ///< master weights; moments stay as they are
};

/// What publish_weights() is told of weights from there: the step that rounded them, where the run
/// goes on; 0 where another one begins with them.
int64_t updates_of(const io::checkpoint::reader& from, restored what);

/// A checkpoint of another model.
inline constexpr error_kind<uint64_t, std::string_view> checkpoint_lacks{
    "checkpoint_lacks", errc::bad_data, "the checkpoint of step {} lacks {}",
    "it is of another model: compare `troupe ckpt show` with the [model] section"};
inline constexpr error_kind<std::string_view> shape_differs{
    "shape_differs", errc::bad_data, "{} has another shape in the checkpoint than in the model",
    "it is of another model: compare `troupe ckpt show` with the [model] section"};

/// Takes the state of a chunk on disk over as it is in the checkpoint, uncopied; false: it cannot.
using chunk_taker = std::function<bool(int chunk)>;

/// Fills the store's slices from a checkpoint of any layout and publishes their weights; those of
/// other replicas' slices are still to be gathered. Slots are read, summed and copied to their
/// places by `threads` threads (0: the reader's choice). Of chunks on disk `take` is asked first,
/// if there is one. Blocks. Errors: checkpoint_lacks, shape_differs, bad_data for another type (the
/// store is as it was then) or damage; io, cancelled soon after `ending` was asked for (it is
/// partly filled).
status restore_state(parameter_store& store, const io::checkpoint::reader& from, restored what,
                     unsigned threads = 0, const std::stop_token& ending = {},
                     const chunk_taker& take = {});

}  // namespace troupe::gpu
