// One pipeline stage of a transformer on one device: its parameters, its planned memory and the
// order in which it enqueues operations for forward and backward.
//
// Why: a worker actor says "forward of slot 2" and gets on with its life; everything here enqueues
// on the given stream and returns. A slot holds what one micro-batch needs between its forward and
// its backward.
//
// Invariants
// SM-1 Nothing is allocated after make() (back ends aside): memory is what plan() says.
// SM-2 forward(slot) overwrites what the slot held; backward(slot) needs the latest forward(slot)
//   and eats it.
// SM-3 Gradients add up over micro-batches until the optimizer zeroes them.
// SM-4 Recomputed activations have the same bits as kept ones, whatever each layer keeps.
// SM-5 One stage_model is driven by one stream at a time; other streams may read boundary buffers
//   and chunk gradients behind events.
// SM-6 A pass of several micro-batches, where the shape has by_layer, does a layer for all of them
//   before the next layer; what they add to a gradient is added in their order. Forward takes them
//   in the reverse order: what it leaves in frames that layers share is what backward begins with.
// SM-7 A slot's documents are those of its last forward pass; a pass that is given none has rows of
//   one document each, and the bits of a model whose shape has none.
// SM-8 A layer that spills has its input and a frame, in which it may make again what it would read
//   from the drive: with no more memory, a replay of its own and the same bits (SM-4).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "gpu/device.hpp"
#include "gpu/model/activation_mover.hpp"
#include "gpu/model/stage_shape.hpp"
#include "gpu/store/store.hpp"
#include "io/base/model_config.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

class stage_model {
 public:
  /// Plans and allocates. Weights are zero until initialize() or a load. Fails with bad_config or
  /// no_memory.
  static result<std::unique_ptr<stage_model>> make(device& owner, const model_config& model,
                                                   const stage_shape& shape);
  ~stage_model();

  const model_config& config() const noexcept;
  const stage_shape& shape() const noexcept;
  const stage_plan& plan() const noexcept;
  parameter_store& store() noexcept;

  // -- what pipeline neighbours exchange: [B*T, C] in the compute dtype
  // -------------------------------------

  /// Written by the stage before (null where has_embedding).
  void* input(int slot) const;
  /// Read by the stage after, once forward(slot) is done (null where has_head).
  const void* output(int slot) const;
  /// Read by the stage before, once backward(slot) is done (null where has_embedding).
  const void* input_grad(int slot) const;
  /// Written by the stage after before backward(slot) (null where has_head).
  void* output_grad(int slot) const;
  /// Bytes of each of the four.
  size_t boundary_bytes() const noexcept;

  // -- training
  // ------------------------------------------------------------------------------------------

  /// One micro-batch of a pass. `tokens` [B,T] is needed where has_embedding, `targets` [B,T] (< 0:
  /// ignored) where has_head, `documents` by every stage whose shape has them (null: each row is
  /// one); all are copied in stream order, so they stay valid until the stream has passed the call.
  /// Ids and borders are checked by the caller.
  struct micro_batch {
    int slot = 0;
    const int32_t* tokens = nullptr;
    const int32_t* targets = nullptr;
    row_documents documents = {};
  };

  /// Called while backward is being enqueued, right after the last operation that adds to the
  /// chunk's gradient in this pass: record an event there and start reducing.
  using chunk_done = std::function<void(int chunk)>;

  /// Enqueues the forward pass of one micro-batch, or of several (SM-6).
  /// Where has_head, the loss is added to loss_sum(), and the head's gradients, times `scale`, are
  /// made here (backward follows at once in 1F1B); scale = 1 / (targets of the whole step, all
  /// ranks and micro-batches).
  void forward(stream& s, std::span<const micro_batch> batches, float scale);

  /// Called likewise, behind the last operation that reads a layer's weights in this pass; they are
  /// in their frame still, which another layer's may share.
  using weights_done = std::function<void(int chunk)>;

  /// Enqueues the backward pass of as many.
  void backward(stream& s, std::span<const micro_batch> batches, const chunk_done& done = {},
                const weights_done& leaves = {});

  /// Forward only; adds to loss_sum() where has_head. Overwrites the slots.
  void evaluate(stream& s, std::span<const micro_batch> batches);

  /// Device scalar: sum over targets of the cross-entropy since the last reset (0 for good without
  /// a head).
  const double* loss_sum() const noexcept;
  void reset_loss(stream& s);

  /// The chunk whose gradient must be summed with its twin on the other end of the pipeline before
  /// the update: the token table of a tied model whose embedding and head are on different stages.
  /// -1: none.
  int tied_chunk() const noexcept;
  /// The chunk whose rows the embedding reads, and whose gradient is whole last; -1: none.
  int table_chunk() const noexcept;

  // -- activations on a drive
  // ------------------------------------------------------------------------------------------

  /// Brings what layers spill; before the first pass, where any does (stage_shape::spilling), and
  /// not owned.
  void set_activation_mover(activation_mover* mover) noexcept;
  /// Layers that spill and are before `layer`, of this stage from 0, compute again instead, as of
  /// the next forward pass; while no slot holds any (SM-8). At first none does.
  void set_spills_from(int layer) noexcept;
  /// By frame (spill_layout.hpp): whole blocks of a disk.
  std::span<const std::span<std::byte>> spill_frames() const noexcept;
  /// Keeps them allocated while a disk may use them.
  std::shared_ptr<void> spill_memory() const;

  // -- one layer by itself
  // ------------------------------------------------------------------------------------------

  /// What a layer's pass reads and writes in a slot, as training does.
  struct layer_memory {
    int chunk = -1;           ///< its parameters
    void* x = nullptr;        ///< to be written by the caller, boundary_bytes() each
    void* output_grad = nullptr;  ///< the same; it may be where input_grad is
    void* y = nullptr;
    const void* input_grad = nullptr;
  };
  /// `layer`: of this stage, from 0.
  layer_memory memory_of(int slot, int layer) const;
  /// Enqueues forward and backward of one layer, as they are of a micro-batch. The slot holds
  /// nothing afterwards; gradients are added to (SM-3).
  void run_layer(stream& s, int slot, int layer);

  // -- generation and inspection (shape has both ends)
  // -----------------------------------------------------

  /// Enqueues a forward pass of tokens[B,T] and the logits of `rows` consecutive rows of the B*T to
  /// `out` [rows, V] in the compute dtype. Overwrites the slot.
  void logits(stream& s, int slot, const int32_t* tokens, int64_t first_row, int64_t rows,
              void* out);

 private:
  class impl;
  explicit stage_model(std::unique_ptr<impl> body);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::gpu
