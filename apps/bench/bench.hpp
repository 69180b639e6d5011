// `troupe bench`: what this machine does, measured against a ceiling in the same run.
#pragma once

#include <span>

#include "apps/bench/checkpoint_ways.hpp"
#include "apps/shell.hpp"

namespace troupe::apps {

/// `troupe bench messages`: rate and latency of msg<T> beside bare CAF with the same payloads.
void add_bench_messages(shell& sh, command* bench);

/// `troupe-bench recorder`: what the flight recorder costs, against the same actors without it.
void add_bench_recorder(shell& sh, command* bench);

/// `troupe bench checkpoint`: what a checkpoint in every iteration costs; in `rivals`, too.
void add_bench_checkpoint(shell& sh, command* bench,
                          std::span<const ckpt_bench::way_kind> rivals = {});

/// `troupe bench`: all of the benchmarks, a subcommand each.
void add_bench(shell& sh);

}  // namespace troupe::apps
