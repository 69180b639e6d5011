// torch.save + fsync of as many bytes, by a Python of the machine.
#pragma once

#include "apps/bench/checkpoint_ways.hpp"

namespace troupe::apps::ckpt_bench {

/// A Python process that holds the same arrays, and saves them while training stands still.
result<std::unique_ptr<way>> make_torch(const surroundings& around);

/// Error unavailable: no Python here has torch.
status torch_is_here();

}  // namespace troupe::apps::ckpt_bench
