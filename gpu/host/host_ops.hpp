// The host's mathematics behind the asynchronous interface: who does which share of an operation.
//
// Why: kernels (kernels/) and products (gemm.hpp) do one thread's share; here each operation is
// enqueued on its stream and split over the stream's team. Shares are by rows, columns or heads
// such that no two threads write the same memory; sums over tokens go through per-thread partial
// sums added in order (OPS-2).
#pragma once

#include "gpu/host/kernels/kernel_table.hpp"
#include "gpu/host/stream.hpp"
#include "gpu/ops.hpp"

namespace troupe::gpu::host {

class host_ops final : public gpu::ops {
 public:
  /// Uses the given kernels: the machine's best, or for tests any that it can run.
  explicit host_ops(const kernel_table& kernels = select_kernels()) : kernels_(kernels) {}

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

 private:
  const kernel_table& kernels_;
};

/// The stream behind the interface: this back end's operations run on this back end's streams only.
inline host_stream& on_host(stream& s) {
  return static_cast<host_stream&>(s);
}

/// `data` advanced by `elements` of `type`.
inline const void* at(const void* data, dtype type, int64_t elements) {
  return static_cast<const char*>(data) + elements * static_cast<int64_t>(size_of(type));
}
inline void* at(void* data, dtype type, int64_t elements) {
  return static_cast<char*>(data) + elements * static_cast<int64_t>(size_of(type));
}

}  // namespace troupe::gpu::host
