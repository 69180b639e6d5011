// The update of a stage's chunks: gradient norm, clipping and AdamW or LAMB, all on the device.
//
// The flow of a step, each line a call that enqueues:
//   begin(s): the norm's sum is zeroed
//   norm(s, chunk) for each chunk: its gradients are final (reduced); always in the same order
//   [caller]: adds norm_squared() up over the pipeline's stages
//   clip(s): the scale factor becomes a device scalar
//   step(s, chunk, lr, t) for each chunk
//
// Invariants
// OP-1 A tied copy adds nothing to the norm; its twin does.
// OP-2 step() waits on the device for the chunk's registered readers (PS-5), for nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/ops.hpp"
#include "gpu/store/store.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

/// The numbers of the update rule that do not change from step to step.
struct optimizer_settings {
  optimizer_args::rule kind = optimizer_args::rule::adamw;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0.1f;
  float clip_norm = 1.0f;    ///< 0: no clipping
  bool trust_always = true;  ///< LAMB: trust ratio also on tensors without decay
};

class optimizer {
 public:
  /// Allocates the device scalars. The store outlives the optimizer.
  static result<std::unique_ptr<optimizer>> make(parameter_store& store,
                                                 const optimizer_settings& settings);

  const optimizer_settings& settings() const noexcept { return settings_; }

  /// Enqueues: sum of squares = 0.
  void begin(stream& s);
  /// Enqueues: adds the chunk's squared gradient norm to norm_squared() (OP-1), and notes it per
  /// tensor.
  void norm(stream& s, int chunk);
  /// Device scalar, double: squared norm of all gradients seen since begin(). Callers of a pipeline
  /// sum it up over the stages in place before clip().
  double* norm_squared() const noexcept { return scalars_.as<double>(); }
  /// Device array, double: squared norms per tensor of the chunk, in the chunk's order, as of the
  /// last norm().
  const double* tensor_norms_squared(int chunk) const;
  /// Enqueues: scale = min(1, clip_norm / (norm + 1e-6)).
  void clip(stream& s);
  /// Enqueues the update of one chunk: t counts from 1. Gradients are zero afterwards.
  void step(stream& s, int chunk, float lr, int64_t t);

 private:
  optimizer(parameter_store& store, const optimizer_settings& settings)
      : store_(&store), settings_(settings) {}

  float* clip_factor() const noexcept {
    return reinterpret_cast<float*>(scalars_.as<double>() + 1);
  }

  parameter_store* store_;
  optimizer_settings settings_;
  buffer scalars_;       ///< double norm_squared, float scale
  buffer tensor_norms_;  ///< one double per tensor
  std::vector<int64_t> first_tensor_;
};

}  // namespace troupe::gpu
