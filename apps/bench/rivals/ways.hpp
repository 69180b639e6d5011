// The field's ways to checkpoint, to measure ours beside.
#pragma once

#include "apps/bench/checkpoint_ways.hpp"

namespace troupe::apps::ckpt_bench {

/// All of them.
std::span<const way_kind> rival_ways();

}  // namespace troupe::apps::ckpt_bench
