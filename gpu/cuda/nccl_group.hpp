// The data plane between GPUs by NCCL, behind communicator.hpp.
//
// NCCL runs the operations of one communicator one after the other, in the order in which they were
// enqueued on the host, whatever their streams, and it knows no tags. A pipeline stage has four
// transfers under way, each of which may wait long for its neighbour: activations in and out,
// gradients in and out. On one communicator a send would stand behind a receive that was enqueued
// early, whose sender in turn waits behind a receive of its own: a deadlock (1F1B does it). So:
//
//   world  all members: sums, gathers. Used from one stream.
//   links  two members each: one for every ordered pair of neighbours, r to r + 1 and back. A rank
//          uses a link for sending only or for receiving only, so an operation stands behind
//          earlier ones of the same lane alone, and these are matched in order on both sides
//          (COM-4). At most four of a rank: what goes up comes from below, what goes down from
//          above.
//
// Links are communicators of their own, not splits of the world: splits that share resources
// (splitShare) share their order as well. A link uses at most link_blocks thread blocks, so that
// the kernels of all links and of the sums are on the device together: one that finds no place
// behind others that wait for peers is the same deadlock once more.
//
// Addresses: every communicator begins with an id of 128 bytes made by one member. The last rank
// makes the world's (its entries for all others), rank r those of the links between r and r + 1
// (two in its entry for r + 1). Other entries are empty.
//
// Threads: connect() blocks and is run by a worker; all ranks connect in the same order: the world,
// the links of the pairs (0,1), (2,3).., then those of (1,2), (3,4).., upward before downward.
// Operations are enqueued by any one thread at a time. The watch (nccl_watch.hpp) polls and ends.
#pragma once

#include <chrono>

#include "gpu/collective/communicator.hpp"
#include "gpu/cuda/nccl_library.hpp"

namespace troupe::gpu::cuda {

/// Thread blocks of a link's operations: four links, the world and another group's world find room
/// on any data-centre GPU.
inline constexpr int link_blocks = 8;

struct nccl_tuning {
  std::chrono::milliseconds watch_period{20};
  std::chrono::milliseconds close_limit{10'000};  ///< NCW-3
};

/// open_nccl_group() with the library given; it outlives the group.
result<std::unique_ptr<pending_group>> open_nccl_group(const group_options& options, device& gpu,
                                                       const nccl_library& library,
                                                       const nccl_tuning& tuning = {});

}  // namespace troupe::gpu::cuda
