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

#define TROUPE_OP(name) void name(stream& s, const name##_args& a) override;
  TROUPE_DEVICE_OPS(TROUPE_OP)
#undef TROUPE_OP

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
