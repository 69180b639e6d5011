// The naive functions behind the asynchronous interface, and the device that has them. See
// reference_ops.hpp.
#include "tests/gpu/reference/reference_ops.hpp"

#include <unistd.h>

#include "gpu/host/memory.hpp"

namespace troupe::gpu {
namespace reference {
namespace {

/// The functions behind the asynchronous interface, on host streams.
class reference_ops final : public gpu::ops {
 public:
#define TROUPE_OP(name)                                       \
  void name(stream& s, const name##_args& a) override {       \
    static_cast<host::host_stream&>(s).enqueue(               \
        [a](host::compute_context&) { reference::name(a); }); \
  }
  TROUPE_DEVICE_OPS(TROUPE_OP)
#undef TROUPE_OP
};

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
