// The naive back end's mathematics: the truth that every other back end is compared with.
//
// Plain loops in the order of the formulas, float64 throughout, rounded once when stored; no
// blocking, no vectors, no fusion beyond what the interface asks for. Slow on purpose: it must be
// obvious.
#pragma once

#include "gpu/host/bf16.hpp"
#include "gpu/host/stream.hpp"
#include "gpu/ops.hpp"

namespace troupe::gpu::reference {

/// Element i of a tensor of activations.
inline double get(const void* data, dtype type, int64_t i) {
  if (type == dtype::bf16) return bf16_to_float(static_cast<const bf16_bits*>(data)[i]);
  return static_cast<const float*>(data)[i];
}

/// Stores element i, rounded once to the type.
inline void put(void* data, dtype type, int64_t i, double value) {
  if (type == dtype::bf16) {
    static_cast<bf16_bits*>(data)[i] = float_to_bf16(static_cast<float>(value));
  } else {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  }
}

void linear_forward(const linear_forward_args& a);
void linear_backward_input(const linear_backward_input_args& a);
void linear_backward_weight(const linear_backward_weight_args& a);
void embedding_forward(const embedding_forward_args& a);
void embedding_backward(const embedding_backward_args& a);
void norm_forward(const norm_forward_args& a);
void norm_backward(const norm_backward_args& a);
void rope(const rope_args& a);
void attention_forward(const attention_forward_args& a);
void attention_backward(const attention_backward_args& a);
void activation_forward(const activation_forward_args& a);
void activation_backward(const activation_backward_args& a);
void head_loss(const head_loss_args& a);
void optimizer_step(const optimizer_args& a);
void norm_squared(const float* grad, const parameter_span* spans, int64_t span_count, double* sum,
                  double* per_span);
void clip_scale(const double* norm_squared, float max_norm, float* scale);
void cast(void* destination, dtype to, const void* source, dtype from, int64_t count);
void round_by_chance(const rounding_args& a);
void add(void* y, const void* x, dtype type, int64_t count);

/// The functions above behind the asynchronous interface, on host streams.
class reference_ops final : public gpu::ops {
 public:
  void linear_forward(stream& s, const linear_forward_args& a) override;
  void linear_backward_input(stream& s, const linear_backward_input_args& a) override;
  void linear_backward_weight(stream& s, const linear_backward_weight_args& a) override;
  void embedding_forward(stream& s, const embedding_forward_args& a) override;
  void embedding_backward(stream& s, const embedding_backward_args& a) override;
  void norm_forward(stream& s, const norm_forward_args& a) override;
  void norm_backward(stream& s, const norm_backward_args& a) override;
  void rope(stream& s, const rope_args& a) override;
  void attention_forward(stream& s, const attention_forward_args& a) override;
  void attention_backward(stream& s, const attention_backward_args& a) override;
  void activation_forward(stream& s, const activation_forward_args& a) override;
  void activation_backward(stream& s, const activation_backward_args& a) override;
  void head_loss(stream& s, const head_loss_args& a) override;
  void optimizer_step(stream& s, const optimizer_args& a) override;
  void norm_squared(stream& s, const float* grad, const parameter_span* spans, int64_t span_count,
                    double* sum, double* per_span) override;
  void clip_scale(stream& s, const double* norm_squared, float max_norm, float* scale) override;
  void cast(stream& s, void* destination, dtype to, const void* source, dtype from,
            int64_t count) override;
  void round_by_chance(stream& s, const rounding_args& a) override;
  void add(stream& s, void* y, const void* x, dtype type, int64_t count) override;
};

}  // namespace troupe::gpu::reference
