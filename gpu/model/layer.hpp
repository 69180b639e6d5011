// One transformer layer: the operations of its forward and backward pass, in order, for every
// family and block form.
//
// Why apart from the stage: training, recomputation and generation run the same layer over
// different memory.
#pragma once

#include <cstdint>
#include <functional>

#include "gpu/device.hpp"
#include "gpu/ops.hpp"
#include "io/base/model_config.hpp"

namespace troupe::gpu {

/// Pointers to a layer's tensors; T is `const void` (weights) or `float` (gradients). Absent: null.
template <class T>
struct layer_tensors {
  T* norm1 = nullptr;
  T* norm1_bias = nullptr;
  T* qkv = nullptr;  ///< [(H+2K)*D, C]
  T* qkv_bias = nullptr;
  T* q_norm = nullptr;  ///< [D]
  T* k_norm = nullptr;  ///< [D]
  T* o = nullptr;  ///< [C, H*D]
  T* o_bias = nullptr;
  T* norm2 = nullptr;
  T* norm2_bias = nullptr;
  T* up = nullptr;  ///< [F, C], or gate over up [2F, C]
  T* up_bias = nullptr;
  T* down = nullptr;  ///< [C, F]
  T* down_bias = nullptr;
};

/// What backward needs of forward; N tokens. Where a form has no use for an entry it is null.
struct layer_activations {
  void* norm1 = nullptr;     ///< [N,C] normed input
  void* qkv = nullptr;       ///< [N,(H+2K)*D], normed where the model does that, and rotated
  void* heads = nullptr;     ///< [N,(H+K)*D] queries and keys before their norms; with qk_norm only
  void* attended = nullptr;  ///< [N,H*D]
  float* lse = nullptr;      ///< [B,H,T]
  void* middle = nullptr;    ///< [N,C] x + attention; sequential blocks only
  void* norm2 = nullptr;     ///< [N,C]; absent for shared_norm
  void* hidden = nullptr;    ///< [N,F or 2F] before the activation
  void* active = nullptr;    ///< [N,F]
  float* mean1 = nullptr;    ///< [N]
  float* rstd1 = nullptr;
  float* head_rstd = nullptr;  ///< [N,H+K]; with qk_norm only
  float* mean2 = nullptr;
  float* rstd2 = nullptr;
};

/// Scratch of one backward pass.
struct layer_scratch {
  void* gradient = nullptr;    ///< [N,C] flows down the residual stream
  void* d_normed = nullptr;    ///< [N,C]
  void* d_attended = nullptr;  ///< [N,H*D]
  void* d_qkv = nullptr;       ///< [N,(H+2K)*D]
  void* d_active = nullptr;    ///< [N,F]; then of acts.hidden, where that is as wide
};

/// Where and on what a layer runs.
struct layer_pass {
  stream* s = nullptr;
  gpu::ops* ops = nullptr;
  const model_config* model = nullptr;
  dtype type = dtype::f32;
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t first_position = 0;     ///< of every row: > 0 when generating
  row_documents documents = {};   ///< of each row
  const float* cosine = nullptr;  ///< llama: [positions, D/2]
  const float* sine = nullptr;
  uint64_t weight_version = 0;

  int64_t tokens() const { return batch * seq; }
};

/// Replaces the attention over qkv (generation has its own, over cached keys).
using attention_override = std::function<void(const layer_activations&)>;

/// y[N,C] = layer(x[N,C]).
void forward_layer(const layer_pass& pass, const layer_tensors<const void>& weights, const void* x,
                   const layer_activations& acts, void* y,
                   const attention_override& attention = {});

/// Makes again, with the same bits, what backward_layer reads of a forward pass: up to the last
/// product, which it has no use for. `middle_kept`: acts.middle is as the forward pass left it, so
/// the product that makes it is left out too.
void recompute_layer(const layer_pass& pass, const layer_tensors<const void>& weights,
                     const void* x, const layer_activations& acts, bool middle_kept);

/// dx from dy and the activations; adds to the gradients. dy may be scratch.gradient, dx too.
void backward_layer(const layer_pass& pass, const layer_tensors<const void>& weights,
                    const layer_tensors<float>& gradients, const void* x,
                    const layer_activations& acts, const layer_scratch& scratch, const void* dy,
                    void* dx);

}  // namespace troupe::gpu
