// Each operation measured by its stream.
#include "gpu/profiled_device.hpp"

#include <type_traits>

namespace troupe::gpu {

namespace {

#define TROUPE_OP(name) #name,
constexpr std::array<std::string_view, device_op_count> names = {TROUPE_DEVICE_OPS(TROUPE_OP)};
#undef TROUPE_OP

/// Of products and of attention; 0 of what moves memory.
template <class Args>
double flops_of(const Args& a) {
  const auto product = [](int64_t m, int64_t n, int64_t k) {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  };
  if constexpr (requires { a.in, a.out; }) {
    return product(a.tokens, a.in, a.out);
  } else if constexpr (std::is_same_v<Args, attention_cached_args>) {
    return 2 * product(a.queries, a.seq, a.heads * a.head_width);
  } else if constexpr (requires { a.lse; }) {
    const double forward = 2 * product(a.seq, a.seq, a.batch * a.heads * a.head_width);
    return std::is_same_v<Args, attention_backward_args> ? 2 * forward : forward;
  } else if constexpr (std::is_same_v<Args, head_loss_args>) {
    return ((a.dx ? 2 : 1) + (a.dw ? 1 : 0)) * product(a.tokens, a.width, a.vocab);
  } else {
    return 0;
  }
}

class profiled_ops final : public ops {
 public:
  profiled_ops(ops& inner, op_profile& profile) : inner_(inner), profile_(profile) {}

#define TROUPE_OP(name)                                                 \
  void name(stream& s, const name##_args& a) override {                 \
    noted(s, device_op::name, flops_of(a), [&] { inner_.name(s, a); }); \
  }
  TROUPE_DEVICE_OPS(TROUPE_OP)
#undef TROUPE_OP

 private:
  template <class F>
  void noted(stream& s, device_op kind, double flops, F&& enqueue) {
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

std::string_view to_string(device_op kind) noexcept {
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
