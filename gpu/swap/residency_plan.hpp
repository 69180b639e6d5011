// Which parts of a stage's chunks live on disk, so that the rest fits into a budget of memory.
//
// Pure: a function of the model, the shape and the bytes; the sizes are those that are allocated
// (plan_stage).
//
// From the least to the most that memory may hold:
//   - the ends of the model (tables, head): weights and gradient in frames of their own, since they
//     are used at both ends of a pass; their state on disk;
//   - layers: two frames for weights and two for gradients, so that one is filled while the other
//     is used; their state on disk, `groups_in_memory` groups of it on their way. Where several
//     passes add to gradients, or where they are to be held (stages of a pipeline), and memory
//     has no room for all of them, they are on disk in between, those of the first layers only
//     where there is room for some;
//   - more groups on their way;
//   - a gradient of its own for every chunk, where the gradient's norm is to be known before the
//     first update: else chunks are updated into a second version on the drive, which is dropped
//     where the norm asks for other updates (if the drive has the room), or the step's passes are
//     made twice. Replicas do not hold more: each sums a gradient as soon as it is made;
//   - weights of their own for layers, the last ones first, which backward needs soonest again;
//   - the state of token and position tables, where it fits as a whole, and of layers, the first
//     ones first: what backward updates last the next step needs first, so that a drive has the
//     least time for it, while the state of the last layers moves under all of backward;
//   - everything: then nothing is on disk.
// What is too little for the next of these takes more groups on their way (RSP-3).
//
// Weights in bfloat16 have files beside those of their masters, 14 bytes a parameter instead of 12,
// of which a visit reads 2 instead of 4. Where the drive has no room for all of that, or for two
// versions of it that updates before their norm need, they are rounded from masters that are read
// (SWP-18), if that is enough.
//
// Of a device that the host cannot address there are two budgets (memory_split.hpp): the device's,
// for all of that, and the host's, for the twins of slots and frames.
//
// Invariants
//   RSP-1  What is chosen needs at most the budget, by plan_stage; where nothing does, the least is
//          told in the error.
//   RSP-2  A larger budget never means that more moves in a step.
//   RSP-3  What is left over reads further ahead, as far as the state of the ends goes: their
//          gradients are whole last, and nothing else goes on while they wait for a read. A tied
//          token table may be a third of a model.
//   RSP-4  Of two budgets both are kept, RSP-2 is of each alone, and the error is of the one that
//          is too small. What the device holds as a whole takes nothing of the host's.
//   RSP-5  That weights have no files is chosen only where the drive's room is known, is too little
//          for what is wanted with them, and enough without. Of several drives each has room for
//          the chunks in its folders, or there is too little.
//   RSP-6  State is in memory in the order in which the next step needs it, from the first chunk
//          on: only a table that does not fit is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/model/stage_shape.hpp"
#include "gpu/swap/memory_split.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

/// How a step learns the norm of all gradients before its updates count (swap.clip).
enum class clip_way : uint8_t {
  automatic,
  speculate,  ///< chunks are updated under backward into a second version
  hold,       ///< all gradients are kept, in memory or on disk
  twice,      ///< in passes of their own
};

/// Where weights in bfloat16 are, of chunks whose state is on disk (swap.weights).
enum class weights_choice : uint8_t {
  automatic,
  stored,   ///< in files of their own
  derived,  ///< nowhere: who reads them reads the masters
};

/// What a stage may take, and what its steps are like.
struct residency_budget {
  uint64_t bytes = 0;         ///< of memory, for plan_stage(...).total(); of two, the device's
  bool clips = true;          ///< the update needs the norm of all gradients first
  int64_t micro_batches = 1;  ///< of a step; of several gradients add up, unless shape.by_layer
  clip_way clip = clip_way::automatic;
  uint64_t disk_bytes = 0;  ///< that swap files may take; 0: not known, so only one version
  bool measures = false;    ///< LAMB: state of several groups, or of replicas, is read twice
  bool verifies = true;     ///< swap.verify: what is read is summed, as all state that is written
  /// Of the host, where it cannot address the device (split_of); none: both are one memory.
  std::optional<uint64_t> host_bytes = {};
  weights_choice weights = weights_choice::automatic;
  /// Of swap folders on several drives, instead of disk_bytes: the drive of each folder, by number,
  /// and what swap files may take of each drive. A folder has chunks of its own (CFO-1).
  std::vector<size_t> folder_drives = {};
  std::vector<uint64_t> drive_bytes = {};
};

/// Bytes of the least that memory must hold.
inline constexpr error_kind<double, double, double> budget_too_small{
    "budget_too_small", errc::bad_config,
    "a rank has {:.1f} MiB of swap.host_bytes and needs {:.1f} MiB at least, {:.1f} of them for "
    "activations and workspace",
    "raise swap.host_bytes, or lower train.micro_batch or train.seq_len"};
/// The same of a GPU's memory, and of the host's for what a GPU reaches a drive through.
inline constexpr error_kind<double, double, double> device_budget_too_small{
    "device_budget_too_small", errc::bad_config,
    "a rank has {:.1f} MiB of swap.device_bytes and needs {:.1f} MiB at least, {:.1f} of them for "
    "activations and workspace",
    "raise swap.device_bytes, or lower train.micro_batch or train.seq_len"};
inline constexpr error_kind<double, double> twins_too_large{
    "twins_too_large", errc::bad_config,
    "there are {:.1f} MiB of swap.host_bytes for what a process holds beside a GPU, and {:.1f} MiB "
    "are needed at least",
    "raise swap.host_bytes"};

/// The residency of a stage of `shape` (whose own is ignored). Errors: budget_too_small; of two
/// budgets device_budget_too_small, twins_too_large (RSP-1, RSP-4).
result<residency> plan_residency(const model_config& model, const stage_shape& shape,
                                 const residency_budget& budget);

/// What needs the least memory; of two the least of the device's, or of the host's where the device
/// has room for all gradients and the host none for what brings them.
residency least_residency(const model_config& model, const stage_shape& shape,
                          const residency_budget& budget);

/// What the stage takes of both memories of such a budget; of one memory nothing of the host's.
memory_split needs_of(const model_config& model, const stage_shape& shape,
                      const residency_budget& budget);

/// Whether every gradient is kept in memory until the update.
bool keeps_gradients(const residency& where);

}  // namespace troupe::gpu
