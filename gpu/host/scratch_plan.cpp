// The operations of a layer, and of the ends of a model, one after the other.
#include "gpu/host/scratch_plan.hpp"

#include <algorithm>

#include "gpu/host/memory.hpp"
#include "gpu/host/scratch_demand.hpp"

namespace troupe::gpu::host {

namespace {

/// As scratch_memory grows, in whole pages.
uint64_t grown_bytes(size_t bytes) {
  return bytes + bytes / 8 + 4096;
}

/// A number for each block of the largest tensor.
size_t norm_bytes(const model_config& model) {
  const int64_t largest = std::max({model.vocab, model.ffn_in_width(), model.qkv_width()}) *
                          std::max(model.hidden, model.attention_width());
  return static_cast<size_t>(norm_blocks(largest)) * sizeof(double);
}

class sum {
 public:
  sum(const kernel_table& k, const model_config& model, const scratch_shape& shape)
      : k_(k), model_(model), shape_(shape), tokens_(shape.batch * shape.seq) {}

  uint64_t bytes() {
    linear(model_.qkv_width(), model_.hidden);
    linear(model_.hidden, model_.attention_width());
    linear(model_.ffn_in_width(), model_.hidden);
    linear(model_.hidden, model_.ffn);
    norm();
    attention();
    add({norm_bytes(model_), 0, 0});
    if (shape_.has_head) head();
    return grown_bytes(most_.operation) + grown_bytes(most_.packing) + most_.dnnl;
  }

 private:
  size_t threads() const { return static_cast<size_t>(shape_.threads); }

  void add(const scratch_demand& one) {
    most_.operation = std::max(most_.operation, one.operation);
    most_.packing = std::max(most_.packing, one.packing);
    most_.dnnl += one.dnnl;
  }

  void linear(int64_t out, int64_t in) {
    linear_forward_args forward{};
    forward.tokens = tokens_, forward.in = in, forward.out = out, forward.type = shape_.compute;
    linear_backward_input_args input{};
    input.tokens = tokens_, input.in = in, input.out = out, input.type = shape_.compute;
    linear_backward_weight_args weight{};
    weight.tokens = tokens_, weight.in = in, weight.out = out, weight.type = shape_.compute;
    add(demand_of(k_, forward, shape_.threads));
    add(demand_of(k_, input, shape_.threads));
    add(demand_of(k_, weight, shape_.threads));
  }

  /// Sums of dweight and dbias, or of both weights of norms of heads, of each thread.
  void norm() {
    const int64_t width = std::max(model_.hidden, model_.qk_norm ? model_.head_width : 0);
    const size_t piece = round_to_line(static_cast<size_t>(2 * width) * sizeof(float));
    add({threads() * 2 * piece, 0, 0});
  }

  void attention() {
    const auto one = k_.attention_memory(shape_.seq, model_.head_width);
    add({threads() * round_to_line(std::max(one.forward_bytes, one.backward_bytes)), 0, 0});
  }

  void head() {
    head_loss_args a{};
    a.tokens = tokens_, a.width = model_.hidden, a.vocab = model_.vocab, a.type = shape_.compute;
    add(demand_of(k_, a, shape_.threads));
  }

  const kernel_table& k_;
  const model_config& model_;
  const scratch_shape& shape_;
  int64_t tokens_;
  scratch_demand most_;
};

}  // namespace

uint64_t norm_scratch_bytes(const model_config& model) {
  return grown_bytes(norm_bytes(model));
}

uint64_t scratch_bytes(const model_config& model, const scratch_shape& shape) {
  return sum(select_kernels(), model, shape).bytes();
}

}  // namespace troupe::gpu::host
