// What a stage takes of a device whose memory the host cannot address (a GPU), and what of the
// host's memory for it: budgets of their own (swap.device_bytes, swap.host_bytes).
//
// Pure; the sizes are those that are allocated (plan_stage, swapper, spiller).
//
// On the device lie weights, gradients, state and activations as in a host's memory, and a slot for
// each group of state on its way, with its gradient where that comes from a drive, and two for
// masters that are rounded to weights there (SWP-18). The host has a page-locked twin of each such
// slot, through which a drive reaches it; one for the largest weights that come from a drive as
// they are; two for the largest gradient that goes there and comes back (SWP-17); one of each frame
// for activations that layers spill; and what a checkpoint reads meanwhile. Where nothing lives on
// a drive it has none of these.
//
// Invariants
//   TWN-1  Slots and twins of the plan are those that are made, to the byte.
#pragma once

#include <cstdint>

#include "gpu/model/stage_shape.hpp"
#include "io/base/model_config.hpp"

namespace troupe::gpu {

struct memory_split {
  uint64_t device_bytes = 0, host_bytes = 0;
  bool operator==(const memory_split&) const = default;
};

/// Of a stage whose chunks live where `shape` says.
memory_split split_of(const model_config& model, const stage_shape& shape);

}  // namespace troupe::gpu
