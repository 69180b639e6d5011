// One layer, forward and backward, on made-up numbers, for others to hold theirs against
// (recheck_policy.hpp).
//
// Why made-up numbers: the replicas of a stage make the same ones, each by itself, so that nothing
// but digests travels and each rank is looked at each time. The layer is a real one: its weights,
// its kernels, its memory, the shape of the job's micro-batches. It runs at the very begin of a
// step, where activations keep nothing and all gradients are zero, and leaves them so.
//
// What is hashed lies on the device; it comes to the host in pieces.
//
// Invariants
//   LRC-1  What training computes and saves is the same bits with it and without: it writes to
//     nothing but a slot of activations, scratch, and the layer's gradient, which is zero again
//     behind it.
//   LRC-2  The numbers depend on layer and `number` alone.
//   LRC-3  No device memory is allocated, but by the known product while that is made; of the
//     host's, one piece.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "actors/health/recheck_policy.hpp"
#include "actors/train/stream_hash.hpp"
#include "gpu/device.hpp"
#include "gpu/known_product.hpp"
#include "gpu/model/stage_model.hpp"
#include "io/base/result.hpp"

namespace troupe::train {

class layer_recheck {
 public:
  /// `threads`: of the stream that it will run on. The model and its device outlive it. Errors: of
  /// pinning.
  static result<std::unique_ptr<layer_recheck>> make(gpu::stage_model& model, int threads);

  /// What a test or a drill does to the layer's output before it is hashed; enqueues.
  using spoiler = std::function<void(gpu::stream& s, void* output)>;

  /// Enqueues all of it, in an activation slot that nobody uses: layers take turns by `number`.
  /// With `twice` it is computed twice, and the known product is made. `spoil`: of the first time.
  void enqueue(gpu::stream& s, int slot, uint64_t number, bool twice, const spoiler& spoil = {});

  /// What the stream has come to since the last time; none: nothing was enqueued.
  std::optional<health::recheck_result> take() { return std::exchange(told_, std::nullopt); }

 private:
  layer_recheck(gpu::stage_model& model, int threads);
  void make_up(gpu::stream& s, void* into, size_t bytes, uint64_t seed);
  void compute(gpu::stream& s, int slot, int layer, uint64_t number, const spoiler& spoil);
  void fill_piece(uint64_t seed, size_t bytes);

  gpu::stage_model& model_;
  uint64_t likeness_ = 0;
  std::unique_ptr<stream_hash> hash_;  ///< numbers go through its memory to the device, too
  std::optional<gpu::known_product> known_;
  std::optional<health::recheck_result> told_;  ///< the stream's
};

}  // namespace troupe::train
