// Which part of a model a pipeline stage holds, how its layers are shared out, and what it will
// cost in memory before anything is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/store/store.hpp"
#include "io/base/model_config.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

/// Which parameters weight decay touches.
enum class decay_scope : uint8_t { matrices, all };

/// What a layer holds between its forward and its backward; backward makes the rest again, up to
/// the last product, with the same bits (SM-4).
enum class activation_choice : uint8_t {
  recompute,  ///< its input
  half,       ///< and x + attention: no more than recompute where the block has no such tensor
  keep,       ///< all that backward reads
  spill,      ///< its input in memory, and on a drive all else that backward reads
};
inline constexpr size_t activation_choices = 4;
/// Whether backward makes any of it again.
constexpr bool computes_again(activation_choice choice) noexcept {
  return choice == activation_choice::recompute || choice == activation_choice::half;
}
/// "recompute", "half", "keep", "spill".
std::string_view to_string(activation_choice choice);

/// One pipeline stage: layers [first_layer, last_layer) and perhaps the ends of the model.
struct stage_shape {
  int64_t first_layer = 0;
  int64_t last_layer = 0;  ///< exclusive
  bool has_embedding = true;
  bool has_head = true;
  int64_t micro_batch = 1;  ///< B: rows of one micro-batch
  int64_t seq = 1;          ///< T: tokens of a row
  int64_t slots = 1;        ///< micro-batches in flight: forward done, backward not yet
  /// A pass may be of several micro-batches, all of which go through a layer before the next one.
  bool by_layer = false;
  dtype compute = dtype::f32;
  bool documents = false;  ///< rows may hold several (row_documents)
  bool recompute = false;  ///< of layers that `activations` does not name: not keep, but recompute
  std::vector<activation_choice> activations = {};  ///< by layer of the stage; or empty
  bool training = true;  ///< false: no gradients, optimizer state or backward buffers
  decay_scope decay = decay_scope::matrices;
  replica_place replica = {};  ///< of the stage's data-parallel replicas, who share its optimizer
  std::optional<uint64_t> rounding_seed = {};  ///< as in store_options
  residency where = {};                        ///< the same

  int64_t tokens() const { return micro_batch * seq; }
  int64_t layers() const { return last_layer - first_layer; }
  /// `layer`: of this stage, from 0.
  activation_choice activations_of(size_t layer) const {
    if (!activations.empty()) return activations[layer];
    return recompute ? activation_choice::recompute : activation_choice::keep;
  }
  /// Layers of this stage, from 0, that spill; none where nothing is trained.
  std::vector<int> spilling() const {
    std::vector<int> out;
    for (size_t i = 0; training && i < activations.size(); ++i)
      if (activations[i] == activation_choice::spill) out.push_back(static_cast<int>(i));
    return out;
  }
};

/// bad_config naming what does not fit the model.
status check(const model_config& model, const stage_shape& shape);

/// A shape that holds the whole model.
stage_shape whole_model(const model_config& model, int64_t micro_batch, int64_t seq, dtype compute);

/// Cuts a model into `stages` runs of layers whose slowest is as quick as can be, the head's
/// product counted as the layers it weighs. Sets first_layer, last_layer, has_embedding, has_head.
/// Needs 1 <= stages <= layers.
std::vector<stage_shape> split_stages(const model_config& model, int64_t stages, int64_t seq);

/// The same with so many layers in each stage: at least one, the model's in all.
std::vector<stage_shape> cut_stages(const std::vector<int64_t>& layers);

/// The chunks of a stage in order: embedding, positions, layers, head, tied copy of the embedding
/// (PS-1).
std::vector<chunk_info> stage_chunks(const model_config& model, const stage_shape& shape);

/// Bytes a stage needs, on each of its replicas.
struct stage_plan {
  uint64_t weights = 0;  ///< compute copies; in f32 they are the master weights
  uint64_t masters = 0;  ///< f32 master weights where they are not the weights; a replica's slice
  uint64_t gradients = 0;
  uint64_t optimizer = 0;  ///< m and v; a replica's slice
  uint64_t activations_per_slot =
      0;  ///< kept from forward to backward, boundary activations included
  uint64_t slots = 0;
  uint64_t workspace = 0;   ///< shared by all slots
  uint64_t spill_bytes = 0;  ///< of disk, in on_disk: activations that layers spill
  uint64_t swap_slots = 0;  ///< state on its way between disk and update
  uint64_t on_disk = 0;     ///< of disk, not counted in total()

  uint64_t total() const {
    return weights + masters + gradients + optimizer + activations_per_slot * slots + workspace +
           swap_slots;
  }
  /// A few lines for people, MiB.
  std::string text() const;
};

/// The plan of a stage: exactly what stage_model::make allocates of its own (a back end's packed
/// copies and scratch come on top).
stage_plan plan_stage(const model_config& model, const stage_shape& shape);

}  // namespace troupe::gpu
