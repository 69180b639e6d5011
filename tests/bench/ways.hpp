// The field's ways to checkpoint, to measure ours beside.
#pragma once

#include "apps/bench/checkpoint_ways.hpp"
#include "apps/shell.hpp"

namespace troupe::apps::ckpt_bench {

/// All of them.
std::span<const way_kind> rival_ways();

}  // namespace troupe::apps::ckpt_bench

namespace troupe::apps {

/// `troupe-bench recorder`: what the flight recorder costs, against the same actors without it.
void add_bench_recorder(shell& sh, command* bench);

}  // namespace troupe::apps
