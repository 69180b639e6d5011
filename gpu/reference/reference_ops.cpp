// The naive functions behind the asynchronous interface, and the device that has them. See
// reference_ops.hpp.
#include "gpu/reference/reference_ops.hpp"

#include <unistd.h>

#include "gpu/host/memory.hpp"

namespace troupe::gpu {
namespace reference {
namespace {

/// Enqueues `function(arguments...)`, arguments by value.
template <class F, class... Args>
void on(stream& s, F function, Args... args) {
  static_cast<host::host_stream&>(s).enqueue([=](host::compute_context&) { function(args...); });
}

}  // namespace

namespace naive = reference;

#define TROUPE_REFERENCE_OP(name)                             \
  void reference_ops::name(stream& s, const name##_args& a) { \
    on(s, naive::name, a);                                    \
  }
TROUPE_REFERENCE_OP(linear_forward)
TROUPE_REFERENCE_OP(linear_backward_input)
TROUPE_REFERENCE_OP(linear_backward_weight)
TROUPE_REFERENCE_OP(embedding_forward)
TROUPE_REFERENCE_OP(embedding_backward)
TROUPE_REFERENCE_OP(norm_forward)
TROUPE_REFERENCE_OP(norm_backward)
TROUPE_REFERENCE_OP(rope)
TROUPE_REFERENCE_OP(attention_forward)
TROUPE_REFERENCE_OP(attention_backward)
TROUPE_REFERENCE_OP(activation_forward)
TROUPE_REFERENCE_OP(activation_backward)
TROUPE_REFERENCE_OP(head_loss)
#undef TROUPE_REFERENCE_OP

void reference_ops::optimizer_step(stream& s, const optimizer_args& a) {
  on(s, naive::optimizer_step, a);
}

void reference_ops::round_by_chance(stream& s, const rounding_args& a) {
  on(s, naive::round_by_chance, a);
}

void reference_ops::norm_squared(stream& s, const float* grad, const parameter_span* spans,
                                 int64_t span_count, double* sum, double* per_span) {
  on(s, naive::norm_squared, grad, spans, span_count, sum, per_span);
}

void reference_ops::clip_scale(stream& s, const double* norm_squared, float max_norm,
                               float* scale) {
  on(s, naive::clip_scale, norm_squared, max_norm, scale);
}

void reference_ops::cast(stream& s, void* destination, dtype to, const void* source, dtype from,
                         int64_t count) {
  on(s, naive::cast, destination, to, source, from, count);
}

void reference_ops::add(stream& s, void* y, const void* x, dtype type, int64_t count) {
  on(s, naive::add, y, x, type, count);
}

namespace {

class reference_device final : public device {
 public:
  device_facts facts() const override {
    const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return {"reference: naive loops in float64", "none", 1, pages * page};
  }
  result<std::unique_ptr<stream>> make_stream(const stream_options& options) override {
    return std::unique_ptr<stream>(
        std::make_unique<host::host_stream>(*this, stream_options{options.name, 1}));
  }
  result<buffer> allocate(size_t bytes) override { return host::allocate_memory(bytes); }
  bool host_accessible() const noexcept override { return true; }
  gpu::ops& ops() noexcept override { return ops_; }

 private:
  reference_ops ops_;
};

}  // namespace
}  // namespace reference

std::unique_ptr<device> make_reference_device() {
  return std::make_unique<reference::reference_device>();
}

}  // namespace troupe::gpu
