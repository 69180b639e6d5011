// A group over host memory for devices whose memory the host cannot reach.
//
// Why: Gloo moves host memory only. Where NCCL cannot be used (several ranks share one GPU, no NCCL
// on the machine) every operation goes through a host buffer on the way in and out, in stream
// order: slower, but right, and behind the same interface.
//
// There is one buffer for each stream on which a member moves anything, of one size. What is larger
// than it goes through it in pieces, each of which is copied in, moved and copied out before the
// next one is: by the order of the stream alone.
//
// Why nobody waits for ever for a buffer. A buffer belongs to a stream, so the operations that use
// it are those of that stream, which are one behind the other whatever they use: an operation waits
// for its buffer exactly as long as it waits for its turn. So there are no waits among members but
// those of the inner group, where each operation stands for its pieces, in a row:
//   - Collectives come in the same order on all members (COM-1) and are cut alike, as their numbers
//     of elements are the same; so the n-th piece of one is the n-th piece of all. What of its own
//     rank it waits for is earlier on its stream, as it would be whole.
//   - A transfer is cut alike on both sides. Its pieces have its tag; they are sent and received in
//     a row on one stream each, so they pair in their order (COM-4). A piece waits for its partner,
//     and that for what is before it on the partner's stream, as the whole would.
// A pool of fewer buffers than streams would not do: of two members each of which has lent its last
// buffer to a receive neither could send what the other waits for.
//
// Invariants
// SGB-1 A host buffer is used by one piece of one operation at a time, and again only when that
//   one's last copy is done.
// SGB-2 A member holds `staging_bytes` of host memory for each stream on which it moves anything,
//   booked before it is allocated; where that is refused the stream fails.
// SGB-3 Sums have the bits that the inner group gives to pieces: of scattered ones those of the
//   whole, since in which order an element's terms are added hangs on whose part it is of.
#pragma once

#include <memory>

#include "gpu/collective/communicator.hpp"

namespace troupe::gpu {

/// `inner`, a group over host memory, for data in `owner`'s memory; owner outlives the group.
std::unique_ptr<pending_group> make_staged_group(device& owner,
                                                 std::unique_ptr<pending_group> inner);

}  // namespace troupe::gpu
