// A group over host memory for devices whose memory the host cannot reach.
//
// Why: Gloo moves host memory only. Where NCCL cannot be used (several ranks share one GPU, no NCCL
// on the machine) every operation goes through a host buffer on the way in and out, in stream
// order: slower, but right, and behind the same interface.
//
// Invariants
// SGB-1 A host buffer is used by one operation at a time, and again only when that operation's
//   last copy is done.
#pragma once

#include <memory>

#include "gpu/collective/communicator.hpp"

namespace troupe::gpu {

/// `inner`, a group over host memory, for data in `owner`'s memory; owner outlives the group.
std::unique_ptr<pending_group> make_staged_group(device& owner,
                                                 std::unique_ptr<pending_group> inner);

}  // namespace troupe::gpu
