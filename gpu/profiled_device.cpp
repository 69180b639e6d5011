// Each operation measured by its stream.
#include "gpu/profiled_device.hpp"

#include "gpu/ops.hpp"

namespace troupe::gpu {

namespace {

constexpr std::array<std::string_view, op_kind_count> names = {"linear_forward",
                                                               "linear_backward_input",
                                                               "linear_backward_weight",
                                                               "embedding_forward",
                                                               "embedding_backward",
                                                               "norm_forward",
                                                               "norm_backward",
                                                               "rope",
                                                               "attention_forward",
                                                               "attention_backward",
                                                               "activation_forward",
                                                               "activation_backward",
                                                               "head_loss",
                                                               "optimizer_step",
                                                               "norm_squared",
                                                               "clip_scale",
                                                               "cast",
                                                               "add"};

template <class Args>
double product_flops(const Args& a) {
  return 2.0 * static_cast<double>(a.tokens) * static_cast<double>(a.in) *
         static_cast<double>(a.out);
}

template <class Args>
double attention_flops(const Args& a) {
  return 4.0 * static_cast<double>(a.batch * a.heads * a.head_width) *
         static_cast<double>(a.seq * a.seq);
}

class profiled_ops final : public ops {
 public:
  profiled_ops(ops& inner, op_profile& profile) : inner_(inner), profile_(profile) {}

  void linear_forward(stream& s, const linear_forward_args& a) override {
    noted(s, op_kind::linear_forward, product_flops(a), [&] { inner_.linear_forward(s, a); });
  }
  void linear_backward_input(stream& s, const linear_backward_input_args& a) override {
    noted(s, op_kind::linear_backward_input, product_flops(a),
          [&] { inner_.linear_backward_input(s, a); });
  }
  void linear_backward_weight(stream& s, const linear_backward_weight_args& a) override {
    noted(s, op_kind::linear_backward_weight, product_flops(a),
          [&] { inner_.linear_backward_weight(s, a); });
  }
  void embedding_forward(stream& s, const embedding_forward_args& a) override {
    noted(s, op_kind::embedding_forward, 0, [&] { inner_.embedding_forward(s, a); });
  }
  void embedding_backward(stream& s, const embedding_backward_args& a) override {
    noted(s, op_kind::embedding_backward, 0, [&] { inner_.embedding_backward(s, a); });
  }
  void norm_forward(stream& s, const norm_forward_args& a) override {
    noted(s, op_kind::norm_forward, 0, [&] { inner_.norm_forward(s, a); });
  }
  void norm_backward(stream& s, const norm_backward_args& a) override {
    noted(s, op_kind::norm_backward, 0, [&] { inner_.norm_backward(s, a); });
  }
  void rope(stream& s, const rope_args& a) override {
    noted(s, op_kind::rope, 0, [&] { inner_.rope(s, a); });
  }
  void attention_forward(stream& s, const attention_forward_args& a) override {
    noted(s, op_kind::attention_forward, attention_flops(a),
          [&] { inner_.attention_forward(s, a); });
  }
  void attention_backward(stream& s, const attention_backward_args& a) override {
    noted(s, op_kind::attention_backward, 2 * attention_flops(a),
          [&] { inner_.attention_backward(s, a); });
  }
  void activation_forward(stream& s, const activation_forward_args& a) override {
    noted(s, op_kind::activation_forward, 0, [&] { inner_.activation_forward(s, a); });
  }
  void activation_backward(stream& s, const activation_backward_args& a) override {
    noted(s, op_kind::activation_backward, 0, [&] { inner_.activation_backward(s, a); });
  }
  void head_loss(stream& s, const head_loss_args& a) override {
    const double products = (a.dx ? 2 : 1) + (a.dw ? 1 : 0);
    noted(s, op_kind::head_loss,
          products * 2.0 * static_cast<double>(a.tokens * a.width) * static_cast<double>(a.vocab),
          [&] { inner_.head_loss(s, a); });
  }
  void optimizer_step(stream& s, const optimizer_args& a) override {
    noted(s, op_kind::optimizer_step, 0, [&] { inner_.optimizer_step(s, a); });
  }
  void norm_squared(stream& s, const float* grad, const parameter_span* spans, int64_t span_count,
                    double* sum, double* per_span) override {
    noted(s, op_kind::norm_squared, 0,
          [&] { inner_.norm_squared(s, grad, spans, span_count, sum, per_span); });
  }
  void clip_scale(stream& s, const double* norm_squared, float max_norm, float* scale) override {
    noted(s, op_kind::clip_scale, 0, [&] { inner_.clip_scale(s, norm_squared, max_norm, scale); });
  }
  void cast(stream& s, void* destination, dtype to, const void* source, dtype from,
            int64_t count) override {
    noted(s, op_kind::cast, 0, [&] { inner_.cast(s, destination, to, source, from, count); });
  }
  void round_by_chance(stream& s, const rounding_args& a) override {
    noted(s, op_kind::cast, 0, [&] { inner_.round_by_chance(s, a); });
  }
  void add(stream& s, void* y, const void* x, dtype type, int64_t count) override {
    noted(s, op_kind::add, 0, [&] { inner_.add(s, y, x, type, count); });
  }

 private:
  template <class F>
  void noted(stream& s, op_kind kind, double flops, F&& enqueue) {
    s.measure(
        enqueue,
        [this, kind, flops](double seconds) {
          op_time& entry = profile_.kinds[static_cast<size_t>(kind)];
          ++entry.calls;
          entry.seconds += seconds;
          entry.flops += flops;
        },
        profile_.clock);
  }

  ops& inner_;
  op_profile& profile_;
};

class profiled_device final : public device {
 public:
  profiled_device(device& inner, op_profile& profile) : inner_(inner), ops_(inner.ops(), profile) {}

  device_facts facts() const override { return inner_.facts(); }
  result<std::unique_ptr<stream>> make_stream(const stream_options& options) override {
    stream_options every = options;
    every.replay = false;  // what is replayed cannot be measured one by one
    return inner_.make_stream(every);
  }
  result<buffer> allocate(size_t bytes) override { return inner_.allocate(bytes); }
  result<std::shared_ptr<void>> pin(void* memory, size_t bytes) override {
    return inner_.pin(memory, bytes);
  }
  bool host_accessible() const noexcept override { return inner_.host_accessible(); }
  gpu::ops& ops() noexcept override { return ops_; }

 private:
  device& inner_;
  profiled_ops ops_;
};

}  // namespace

std::string_view to_string(op_kind kind) noexcept {
  return names[static_cast<size_t>(kind)];
}

double op_profile::total_seconds() const noexcept {
  double sum = 0;
  for (const auto& kind : kinds) sum += kind.seconds;
  return sum;
}

std::unique_ptr<device> make_profiled_device(device& inner, op_profile& profile) {
  return std::make_unique<profiled_device>(inner, profile);
}

}  // namespace troupe::gpu
