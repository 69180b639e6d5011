// A device that behaves as another and notes how long each kind of operation takes on the stream.
//
// Why: "the share of each op" must be measured where it runs, without a word of it in the
// operations. Two notifications around each operation cost microseconds: use it for shares, not for
// speed.
//
// Invariants
// PRO-1 One stream at a time is profiled; its operations do not overlap, so their times add up.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "gpu/ops.hpp"
#include "gpu/stopwatch.hpp"

namespace troupe::gpu {

/// The operations of gpu::ops.
#define TROUPE_OP(name) name,
enum class device_op : uint8_t { TROUPE_DEVICE_OPS(TROUPE_OP) count };
#undef TROUPE_OP
constexpr auto device_op_count = static_cast<size_t>(device_op::count);

/// "linear_forward", ...
std::string_view to_string(device_op kind) noexcept;

/// Time and work of one kind of operation.
struct op_time {
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;  ///< matrix products and attention (T*T, as if nothing were masked); else 0
};

/// What a profiled device noted. Read it when the stream is idle.
struct op_profile {
  std::array<op_time, device_op_count> kinds;
  time_kind clock = time_kind::wall;

  /// Sum over kinds, seconds.
  double total_seconds() const noexcept;
  void clear() noexcept { kinds = {}; }
};

/// `inner` with every operation noted in `profile`; both outlive it. Streams are inner's own.
std::unique_ptr<device> make_profiled_device(device& inner, op_profile& profile);

}  // namespace troupe::gpu
