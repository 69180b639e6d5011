// The way `phased` of `troupe bench swap`: training as ZeRO-Infinity does it on one GPU with NVMe
// (Rajbhandari et al. 2021; DeepSpeed's offload of optimizer and parameters).
//
// Weights are brought ahead of their use in both passes. As backward makes a chunk's gradient it is
// written to the drive in float32, and its frame is free for another chunk. The optimizer is a
// phase behind backward: chunk by chunk the gradient is read back while the state of the one before
// is read, updated and written. Nothing is held up without need, so this is faster than the real
// one, whose reads and writes are not pipelined by default: the gradient of a chunk is written
// while backward goes on, chunks of the optimizer's phase overlap, and so does the next forward
// with the end of that phase.
//
// Invariants
//   PHW-1  A step moves what a step of `ours` moves, and each gradient of a chunk on disk once in
//     each direction, 4 bytes a parameter.
//   PHW-2  A gradient is written behind all that adds to it, read behind that write, and its frame
//     is zero before it is given away.
#pragma once

#include <memory>

#include "apps/bench/swap_trainer.hpp"

namespace troupe::apps::swap_bench {

/// `options` have their residency, and their folder is open. Errors: no_memory, io.
result<std::unique_ptr<trainer>> make_phased(train::engine_options options);

}  // namespace troupe::apps::swap_bench
