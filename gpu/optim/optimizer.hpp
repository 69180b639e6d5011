// The update of a stage's chunks: gradient norm, clipping and AdamW or LAMB, all on the device.
//
// Replicas share the work: each updates its own slice of every chunk (store.hpp), so what spans
// slices is put together by the caller between these calls. The flow of a step, each line a call
// that enqueues:
//   begin(s): the norm's sum is zeroed
//   norm(s, chunk) for each chunk: its gradients are final (summed); always in the same order
//   [caller]: adds norm_squared() up over the replicas and the pipeline's stages
//   clip(s): the scale factor becomes a device scalar
//   where shared_norms() has any (LAMB with several replicas):
//     measure(s, chunk, lr, t) for each chunk: moves m and v, notes the slice's part of norms
//     [caller]: gathers the replicas' shared_norms()
//   step(s, chunk, lr, t) for each chunk
//   [caller]: gathers the replicas' slices of the weights
// Of a chunk whose state lies in pieces elsewhere, in place of measure() and step():
//   where shared_norms() has any, before they are gathered, or where measures_pieces() (LAMB), for
//   each piece in order: measure(s, piece, lr, t)
//   step(s, piece, lr, t) for each piece in order
// Where chunks are updated one by one, as soon as their gradients are summed, replicas gather the
// norms of one at a time, gather_norms(), behind the measuring of that one.
//
// Invariants
// OP-1 A tied copy adds nothing to the norm; its twin does.
// OP-2 step() and measure() wait on the device for the chunk's registered readers (PS-5), for
//   nothing else.
// OP-3 A tensor's norms are the replicas' parts added in the order of their ranks: twins on two
//   stages get the same bits.
// OP-4 LAMB's norms of a slice are of its parts, added in their order, wherever its state lies: an
//   update piece by piece has the bits of one of the whole slice in memory. Parts are the groups
//   that a swap file of at most `norm_elements` a group has (io/swap/chunk_file.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/ops.hpp"
#include "gpu/store/store.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

/// The numbers of the update rule that do not change from step to step.
struct optimizer_settings {
  optimizer_step_args::rule kind = optimizer_step_args::rule::adamw;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0.1f;
  float clip_norm = 1.0f;    ///< 0: no clipping
  bool trust_always = true;  ///< LAMB: trust ratio also on tensors without decay
  int64_t norm_elements = residency::usual_group_elements;  ///< LAMB: of a part at most (OP-4)
};

class optimizer {
 public:
  /// Allocates the device scalars. The store outlives the optimizer.
  static result<std::unique_ptr<optimizer>> make(parameter_store& store,
                                                 const optimizer_settings& settings);

  const optimizer_settings& settings() const noexcept { return settings_; }

  /// Enqueues: sum of squares = 0.
  void begin(stream& s);
  /// Enqueues: adds the squared gradient norm of the chunk's slice to norm_squared() (OP-1), and
  /// notes it per tensor.
  void norm(stream& s, int chunk);
  /// The same, but that nothing is added to norm_squared(): for chunks in any order. In the end
  /// total_norm() adds what was noted in the order of chunks: the bits are those of norm().
  void note_norm(stream& s, int chunk);
  /// Enqueues that sum; what is noted is of all chunks.
  void total_norm(stream& s);
  /// Device scalar, double: squared norm of all slices seen since begin(). Callers sum it up over
  /// the replicas and stages in place before clip().
  double* norm_squared() const noexcept { return scalars_.as<double>(); }
  /// Device array, double: squared norms per tensor of the chunk, in the chunk's order, as of the
  /// last norm(); of a tensor's part in the slice.
  const double* tensor_norms_squared(int chunk) const;
  /// Enqueues: scale = min(1, clip_norm / (norm + 1e-6)).
  void clip(stream& s);
  /// Enqueues what pieces that are not clipped are scaled by: 1. Once is enough.
  void allow_unclipped(stream& s);
  /// Device scalar: clip()'s scale.
  float* clip_factor() const noexcept {
    return reinterpret_cast<float*>(scalars_.as<double>() + 1);
  }

  /// What the replicas must gather between measure() and step(): a part for each, the own one being
  /// written by measure(). Of 0 bytes where nothing is to be gathered, nor measured.
  struct gathered {
    void* data = nullptr;   ///< device memory; the parts of all replicas
    size_t part_bytes = 0;  ///< of one
  };
  gathered shared_norms() const noexcept;
  /// Enqueues that this replica has what all have measured of one chunk, where they share norms.
  /// `all_gather` enqueues on `s` that each has the parts of all, which are not where
  /// shared_norms() are. One stream at a time.
  void gather_norms(stream& s, int chunk, const std::function<void(const gathered&)>& all_gather);
  /// Enqueues the first half of an update in memory whose norms the replicas share.
  void measure(stream& s, int chunk, float lr, int64_t t);

  /// Enqueues the update of the own slice of one chunk: t counts from 1. The slice's gradients are
  /// zero afterwards.
  void step(stream& s, int chunk, float lr, int64_t t);

  /// State of some of a slice's elements that lies elsewhere than in the store, and where the new
  /// weights go: to memory of the compute type, or `master` itself.
  struct piece {
    int chunk = 0;
    int64_t first = 0;  ///< element of the slice
    int64_t count = 0;
    /// Of those elements, counted from `first`; alive until the stream has passed.
    const std::vector<parameter_span>* spans = nullptr;
    float* master = nullptr;
    float* m = nullptr;
    float* v = nullptr;
    void* weight = nullptr;
    bool clipped = true;  ///< false: scaled by 1, whatever clip() came to
    float* grad = nullptr;  ///< of those elements, if it is elsewhere than in the store
  };
  /// Whether all pieces of a chunk are measured right before the first of them is updated: of
  /// LAMB's tensors each part needs the norms of the whole. Pieces are the parts of OP-4 then.
  /// False where replicas share the norms of all chunks: they are measured before that.
  bool measures_pieces(int chunk) const;
  /// Enqueues the notes of a piece for the updates of all of the chunk; the first piece's forget
  /// what was noted before. Its m and v are moved, which is to be forgotten; its gradient stays.
  void measure(stream& s, const piece& p, float lr, int64_t t);
  /// The update of these elements, with the bits of that of the whole chunk. Readers are the
  /// caller's affair (OP-2), and so is the version of the weights.
  void step(stream& s, const piece& p, float lr, int64_t t);

 private:
  optimizer(parameter_store& store, const optimizer_settings& settings)
      : store_(&store), settings_(settings) {}

  const replica_place& replica() const noexcept { return store_->options().replica; }
  void norm_into(stream& s, int chunk, double* sum);
  /// LAMB: elements of a slice that are measured together (OP-4).
  struct slice_part {
    int64_t first = 0, count = 0;
    int64_t first_tensor = 0;  ///< among all tensors: of spans[0]
    std::vector<parameter_span> spans;
  };

  void lay_out_parts();
  const std::vector<slice_part>& parts_of(int chunk) const {
    return parts_[static_cast<size_t>(chunk)];
  }
  piece in_memory(int chunk, int64_t first, int64_t count,
                  const std::vector<parameter_span>& spans) const;
  piece in_memory(int chunk, const slice_part& part) const {
    return in_memory(chunk, part.first, part.count, part.spans);
  }
  double* norms_of(const piece& p, int row) const;
  void forget_norms(stream& s, int chunk, int row);
  void note(stream& s, const piece& p, float lr, int64_t t, int row);
  void apply(stream& s, const piece& p, float lr, int64_t t);
  float* unclipped_factor() const noexcept {
    return reinterpret_cast<float*>(scalars_.as<double>() + 1) + 1;
  }
  optimizer_step_args arguments(const piece& p, float lr, int64_t t) const;
  /// The number among all tensors of the first that has a part in the chunk's slice.
  int64_t first_span(int chunk) const {
    return first_tensor_[static_cast<size_t>(chunk)] + store_->first_tensor(chunk);
  }

  parameter_store* store_;
  optimizer_settings settings_;
  /// double norm_squared; float scale, float 1; double, nobody's: note_norm() adds there.
  buffer scalars_;
  buffer tensor_norms_;  ///< one double per tensor
  /// LAMB: a row of two doubles per tensor for each replica, and one that nobody reads.
  buffer trust_norms_;
  buffer gathered_norms_;  ///< of one chunk, the replicas' parts beside each other
  std::vector<std::vector<slice_part>> parts_;  ///< by chunk; LAMB's
  int64_t tensors_ = 0;
  std::vector<int64_t> first_tensor_;  ///< by chunk
  std::vector<double> noted_;          ///< per tensor, on the host, for total_norm()
  double noted_sum_ = 0;
};

}  // namespace troupe::gpu
